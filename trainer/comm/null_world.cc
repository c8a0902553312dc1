#include "fmt/format.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/group.h"
#include "trainer/comm/null_communicator.h"

namespace autocfg::trainer {
namespace {

class DoneWork final : public Work {
 public:
  void Wait() override {}
  bool Test() override { return true; }
};

class NullCommunicator final : public Communicator {
 public:
  NullCommunicator(int rank, int size, CommGroup name, Rendezvous* copies)
      : rank_(rank), size_(size), name_(name), copies_(copies) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // Accepts any type, since nothing is added.
  std::unique_ptr<Work> AllReduce(const Tensor&, ReduceOp, Stream&) override { return CompleteWork(); }
  std::unique_ptr<Work> Send(const Tensor&, int peer, int channel, Stream&) override {
    CheckPeer(*this, peer, channel);
    return CompleteWork();
  }
  std::unique_ptr<Work> Recv(const Tensor&, int peer, int channel, Stream&) override {
    CheckPeer(*this, peer, channel);
    return CompleteWork();
  }
  void Barrier() override {
    if (copies_ != nullptr) copies_->AllGather(fmt::format("barrier {} {}", Name(name_), barriers_++), "");
  }

 private:
  const int rank_;
  const int size_;
  const CommGroup name_;
  Rendezvous* const copies_;
  std::int64_t barriers_ = 0;
};

class NullWorld final : public CommWorld {
 public:
  NullWorld(int rank, int size, Rendezvous* copies)
      : rank_(rank), size_(size), copies_(copies != nullptr && copies->size() > 1 ? copies : nullptr) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor&) override {
    return std::make_unique<NullCommunicator>(GroupPosition(ranks, rank_, size_),
                                              static_cast<int>(ranks.size()), name, copies_);
  }

 private:
  const int rank_;
  const int size_;
  Rendezvous* const copies_;
};

}  // namespace

std::unique_ptr<Work> CompleteWork() { return std::make_unique<DoneWork>(); }

std::unique_ptr<Communicator> CreateNullCommunicator(int rank, int size) {
  return std::make_unique<NullCommunicator>(rank, size, CommGroup::kNone, nullptr);
}

std::unique_ptr<CommWorld> CreateNullWorld(int rank, int size, Rendezvous* copies) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw CommError(fmt::format("rank {} is outside a world of {} ranks", rank, size));
  }
  return std::make_unique<NullWorld>(rank, size, copies);
}

}  // namespace autocfg::trainer
