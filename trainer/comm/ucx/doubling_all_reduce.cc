#include <bit>
#include <vector>

#include "trainer/comm/reduce.h"
#include "trainer/comm/ucx/collectives.h"

namespace autocfg::trainer {
namespace {

class DoublingAllReduce final : public CollectiveTask {
 public:
  DoublingAllReduce(UcxGroup& group, const Tensor& tensor, ReduceOp op, const Tensor& staging)
      : group_(group), tensor_(tensor), op_(op), staging_(staging.data) {
    const int rank = group.rank();
    const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())));
    const int extra = group.size() - power;  // the first 2 * extra ranks form pairs, represented by their odd
                                             // member
    const bool paired = rank < 2 * extra;
    if (paired && rank % 2 == 0) {
      phases_.push_back({Kind::kSend, rank + 1});
      phases_.push_back({Kind::kReceive, rank + 1});
      return;
    }
    if (paired) phases_.push_back({Kind::kReceiveAndReduce, rank - 1});
    const int own = paired ? rank / 2 : rank - extra;  // index among the `power` participants
    for (int distance = 1; distance < power; distance *= 2) {
      const int other = own ^ distance;
      phases_.push_back({Kind::kExchange, other < extra ? 2 * other + 1 : other + extra});
    }
    if (paired) phases_.push_back({Kind::kSend, rank - 1});
  }

  bool done() const override { return next_ == phases_.size(); }

  bool Step() override {
    bool moved = false;
    while (!done()) {
      const Phase& phase = phases_[next_];
      if (!posted_) Post(phase);
      if (!send_.Done() || !receive_.Done()) return moved;
      if (phase.kind == Kind::kExchange || phase.kind == Kind::kReceiveAndReduce) {
        ReduceInto(tensor_.dtype, op_,
                   group_.rank() < phase.peer ? ReduceOrder::kOwnFirst : ReduceOrder::kOtherFirst,
                   tensor_.data, staging_, tensor_.Elements());
      }
      posted_ = false;
      moved = true;
      ++next_;
    }
    return moved;
  }

 private:
  enum class Kind { kSend, kReceive, kReceiveAndReduce, kExchange };
  struct Phase {
    Kind kind;
    int peer;
  };

  void Post(const Phase& phase) {
    posted_ = true;
    const auto bytes = static_cast<std::size_t>(tensor_.Bytes());
    if (phase.kind != Kind::kSend) {
      void* target = phase.kind == Kind::kReceive ? tensor_.data : staging_;
      receive_ = group_.Recv(phase.peer, kCollectiveChannel, target, bytes);
    }
    if (phase.kind == Kind::kSend || phase.kind == Kind::kExchange) {
      send_ = group_.Send(phase.peer, kCollectiveChannel, tensor_.data, bytes);
    }
  }

  UcxGroup& group_;
  const Tensor tensor_;
  const ReduceOp op_;
  void* const staging_;
  std::vector<Phase> phases_;
  std::size_t next_ = 0;
  bool posted_ = false;
  UcxRequest send_;
  UcxRequest receive_;
};

}  // namespace

std::unique_ptr<CollectiveTask> CreateDoublingAllReduce(UcxGroup& group, const Tensor& tensor, ReduceOp op,
                                                        const Tensor& staging) {
  return std::make_unique<DoublingAllReduce>(group, tensor, op, staging);
}

}  // namespace autocfg::trainer
