// Operations that start as late as the contract allows: when they are waited for or tested. Operations that
// match in order of issue (collectives of a group; messages in one direction with one peer on one channel)
// still start in that order.
#include <deque>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "trainer/comm/comm_world.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {
namespace {

// One operation: first not started, then running in the inner world.
struct Delayed {
  std::function<std::unique_ptr<Work>()> start;
  std::unique_ptr<Work> work;

  void Start() {
    if (work == nullptr) work = start();
  }
};

// Operations that have not started, in order of issue.
using Line = std::deque<std::shared_ptr<Delayed>>;

class DelayedWork final : public ScopedWork {
 public:
  DelayedWork(std::shared_ptr<Delayed> delayed, std::shared_ptr<Line> line)
      : delayed_(std::move(delayed)), line_(std::move(line)) {}

  // During stack unwinding, operations that have not started never start.
  ~DelayedWork() override {
    if (delayed_->work == nullptr) WaitUnlessUnwinding();
  }

  void Wait() override {
    Start();
    delayed_->work->Wait();
  }

  bool Test() override {
    Start();
    return delayed_->work->Test();
  }

 private:
  void Start() {
    while (delayed_->work == nullptr) {
      if (line_->empty()) throw CommError("cannot wait again for an operation that failed to start");
      std::shared_ptr<Delayed> first = line_->front();
      line_->pop_front();
      first->Start();
    }
  }

  const std::shared_ptr<Delayed> delayed_;
  const std::shared_ptr<Line> line_;
};

class DelayedCommunicator final : public Communicator {
 public:
  explicit DelayedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) override {
    const bool message = FormOf(call.kind).message;
    std::shared_ptr<Line>& line =
        lines_[message ? Key{call.kind, call.peer, call.channel} : Key{CollectiveKind::kAllReduce, 0, 0}];
    if (line == nullptr) line = std::make_shared<Line>();
    auto delayed = std::make_shared<Delayed>();
    delayed->start = [this, call, &stream] { return inner_->Run(call, stream); };
    line->push_back(delayed);
    return std::make_unique<DelayedWork>(std::move(delayed), line);
  }
  void Barrier() override { inner_->Barrier(); }

 private:
  using Key = std::tuple<CollectiveKind, int, int>;  // of all collectives, or: kind, peer, channel

  const std::unique_ptr<Communicator> inner_;
  std::map<Key, std::shared_ptr<Line>> lines_;
};

class DelayedWorld final : public CommWorld {
 public:
  explicit DelayedWorld(std::unique_ptr<CommWorld> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    return std::make_unique<DelayedCommunicator>(inner_->CreateGroup(name, ranks, staging));
  }

 private:
  const std::unique_ptr<CommWorld> inner_;
};

}  // namespace

std::unique_ptr<CommWorld> CreateDelayedWorld(std::unique_ptr<CommWorld> inner) {
  return std::make_unique<DelayedWorld>(std::move(inner));
}

}  // namespace autocfg::trainer
