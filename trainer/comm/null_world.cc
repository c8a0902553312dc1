#include "fmt/format.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/group.h"
#include "trainer/comm/null_communicator.h"

namespace autocfg {
namespace {

class DoneWork final : public Work {
 public:
  void Wait() override {}
  bool Test() override { return true; }
};

class NullCommunicator final : public Communicator {
 public:
  NullCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // Of any type: nothing is added up.
  std::unique_ptr<Work> AllReduce(const Tensor&, ReduceOp, Stream&) override { return CompleteWork(); }
  std::unique_ptr<Work> Send(const Tensor&, int peer, int channel, Stream&) override {
    CheckPeer(*this, peer, channel);
    return CompleteWork();
  }
  std::unique_ptr<Work> Recv(const Tensor&, int peer, int channel, Stream&) override {
    CheckPeer(*this, peer, channel);
    return CompleteWork();
  }
  void Barrier() override {}

 private:
  const int rank_;
  const int size_;
};

class NullWorld final : public CommWorld {
 public:
  NullWorld(int rank, int size) : rank_(rank), size_(size) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup, const std::vector<std::int64_t>& ranks,
                                            const Tensor&) override {
    return CreateNullCommunicator(GroupPosition(ranks, rank_, size_), static_cast<int>(ranks.size()));
  }

 private:
  const int rank_;
  const int size_;
};

}  // namespace

std::unique_ptr<Work> CompleteWork() { return std::make_unique<DoneWork>(); }

std::unique_ptr<Communicator> CreateNullCommunicator(int rank, int size) {
  return std::make_unique<NullCommunicator>(rank, size);
}

std::unique_ptr<CommWorld> CreateNullWorld(int rank, int size) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw CommError(fmt::format("rank {} is outside a world of {} ranks", rank, size));
  }
  return std::make_unique<NullWorld>(rank, size);
}

}  // namespace autocfg
