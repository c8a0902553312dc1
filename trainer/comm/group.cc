#include "trainer/comm/group.h"

#include <algorithm>

#include "fmt/format.h"

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
  std::unique_ptr<Work> Run(const CollectiveCall&, Stream&) override { return CompleteWork(); }
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

}  // namespace

int GroupPosition(const std::vector<std::int64_t>& ranks, int world_rank, int world_size) {
  int position = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= world_size) {
      throw CommError(
          fmt::format("rank {} of a group is outside the {} ranks of the job", ranks[i], world_size));
    }
    if (i > 0 && ranks[i] <= ranks[i - 1]) {
      throw CommError(
          fmt::format("the ranks of a group must ascend; rank {} follows {}", ranks[i], ranks[i - 1]));
    }
    if (ranks[i] == world_rank) position = static_cast<int>(i);
  }
  if (position < 0)
    throw CommError(fmt::format("rank {} is not a member of the group that it creates", world_rank));
  return position;
}

Tensor PartOf(const Tensor& whole, std::int64_t index, std::int64_t parts) {
  const std::int64_t elements = whole.Elements() / parts;
  return whole.Slice(index * elements, elements);
}

void CheckReducible(const CollectiveCall& call) {
  const DType type = call.whole.dtype;
  if (!FormOf(call.kind).reduces || type == DType::kF32 || type == DType::kF64 || type == DType::kI32 ||
      type == DType::kBF16) {
    return;
  }
  throw CommError(
      fmt::format("cannot reduce elements of type {}; fp32, fp64, bf16 and int32 are supported", Name(type)));
}

std::unique_ptr<Work> CompleteWork() { return std::make_unique<DoneWork>(); }

std::unique_ptr<Communicator> CreateNullCommunicator(int rank, int size, CommGroup name, Rendezvous* copies) {
  return std::make_unique<NullCommunicator>(rank, size, name, copies);
}

}  // namespace autocfg::trainer
