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

  std::unique_ptr<Work> AllReduce(const Tensor& tensor, ReduceOp op, Stream& stream) override {
    auto work = inner_->AllReduce(tensor, op, stream);
    Record(op == ReduceOp::kMax ? OpKind::kAllReduceMax : OpKind::kAllReduceSum, tensor);
    return work;
  }
  std::unique_ptr<Work> ReduceScatter(const Tensor& whole, const Tensor& part, ReduceOp op,
                                      Stream& stream) override {
    auto work = inner_->ReduceScatter(whole, part, op, stream);
    Record(OpKind::kReduceScatter, whole);
    return work;
  }
  std::unique_ptr<Work> AllGather(const Tensor& part, const Tensor& whole, Stream& stream) override {
    auto work = inner_->AllGather(part, whole, stream);
    Record(OpKind::kAllGather, whole);
    return work;
  }
  std::unique_ptr<Work> Send(const Tensor& tensor, int peer, int channel, Stream& stream) override {
    auto work = inner_->Send(tensor, peer, channel, stream);
    Record(OpKind::kSend, tensor);
    return work;
  }
  std::unique_ptr<Work> Recv(const Tensor& tensor, int peer, int channel, Stream& stream) override {
    auto work = inner_->Recv(tensor, peer, channel, stream);
    Record(OpKind::kRecv, tensor);
    return work;
  }
  void Barrier() override { inner_->Barrier(); }

 private:
  // A group of one rank issues no operations, so nothing is recorded.
  void Record(OpKind kind, const Tensor& tensor) {
    if (size() == 1) return;
    OpDesc op;
    op.kind = kind;
    op.dtype = tensor.dtype;
    op.group = name_;
    op.group_size = size();
    op.dims[0] = tensor.Elements();
    log_.Record(op);
  }

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
