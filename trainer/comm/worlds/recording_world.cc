#include <utility>

#include "trainer/comm/comm_world.h"

namespace autocfg::trainer {
namespace {

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> inner, CommGroup name, OpLog& log)
      : inner_(std::move(inner)), name_(name), log_(log) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  // A group of one rank issues no operations, so nothing is recorded.
  std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) override {
    auto work = inner_->Run(call, stream);
    if (size() > 1) log_.Record(DescOf(call, name_, size()));
    return work;
  }
  void Barrier() override { inner_->Barrier(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  const CommGroup name_;
  OpLog& log_;
};

class RecordingWorld final : public CommWorld {
 public:
  RecordingWorld(std::unique_ptr<CommWorld> inner, OpLog& log) : inner_(std::move(inner)), log_(log) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    return std::make_unique<RecordingCommunicator>(inner_->CreateGroup(name, ranks, staging), name, log_);
  }

 private:
  const std::unique_ptr<CommWorld> inner_;
  OpLog& log_;
};

}  // namespace

std::unique_ptr<CommWorld> CreateRecordingWorld(std::unique_ptr<CommWorld> inner, OpLog& log) {
  return std::make_unique<RecordingWorld>(std::move(inner), log);
}

}  // namespace autocfg::trainer
