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

  std::unique_ptr<Work> AllReduce(const Tensor& tensor, ReduceOp op, Stream& stream) override {
    return Delay({Kind::kCollective, 0, 0},
                 [this, tensor, op, &stream] { return inner_->AllReduce(tensor, op, stream); });
  }
  std::unique_ptr<Work> ReduceScatter(const Tensor& whole, const Tensor& part, ReduceOp op,
                                      Stream& stream) override {
    return Delay({Kind::kCollective, 0, 0},
                 [this, whole, part, op, &stream] { return inner_->ReduceScatter(whole, part, op, stream); });
  }
  std::unique_ptr<Work> AllGather(const Tensor& part, const Tensor& whole, Stream& stream) override {
    return Delay({Kind::kCollective, 0, 0},
                 [this, part, whole, &stream] { return inner_->AllGather(part, whole, stream); });
  }
  std::unique_ptr<Work> Send(const Tensor& tensor, int peer, int channel, Stream& stream) override {
    return Delay({Kind::kSend, peer, channel}, [this, tensor, peer, channel, &stream] {
      return inner_->Send(tensor, peer, channel, stream);
    });
  }
  std::unique_ptr<Work> Recv(const Tensor& tensor, int peer, int channel, Stream& stream) override {
    return Delay({Kind::kRecv, peer, channel}, [this, tensor, peer, channel, &stream] {
      return inner_->Recv(tensor, peer, channel, stream);
    });
  }
  void Barrier() override { inner_->Barrier(); }

 private:
  enum class Kind { kCollective, kSend, kRecv };
  using Key = std::tuple<Kind, int, int>;  // kind, peer, channel

  std::unique_ptr<Work> Delay(const Key& key, std::function<std::unique_ptr<Work>()> start) {
    std::shared_ptr<Line>& line = lines_[key];
    if (line == nullptr) line = std::make_shared<Line>();
    auto delayed = std::make_shared<Delayed>();
    delayed->start = std::move(start);
    line->push_back(delayed);
    return std::make_unique<DelayedWork>(std::move(delayed), line);
  }

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
