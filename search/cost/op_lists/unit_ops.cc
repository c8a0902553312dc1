#include "search/cost/op_lists/unit_ops.h"

#include <cstddef>

#include "search/ops/memory_sizes.h"
#include "search/plan/placement.h"

namespace autocfg {
namespace {

bool ShareBuffer(const UnitBlock& a, const UnitBlock& b) {
  if (a.has_buffer || b.has_buffer) return a.unit == b.unit;
  return a.unit % 2 == b.unit % 2;
}

// Lists the ops of blocks in a row, with their collectives.
class BlockLister {
 public:
  BlockLister(const Workload& workload, const ParallelPlan& plan, const std::vector<UnitBlock>& blocks,
              bool accumulate)
      : workload_(workload), plan_(plan), blocks_(blocks), accumulate_(accumulate) {}

  std::vector<OpDesc> List() {
    if (OverlapsParameters(plan_)) GatherNext();
    for (const UnitBlock& block : blocks_) {
      if (block.gathered > 0) GatherNext();
      if (block.reduced > 0) AddPending(&block);
      ops_.insert(ops_.end(), block.ops.begin(), block.ops.end());
      if (block.reduced > 0) Reduce(block);
    }
    AddPending(nullptr);
    return std::move(ops_);
  }

 private:
  // Issues the gather of the first unit that has not been gathered.
  void GatherNext() {
    while (next_gathered_ < blocks_.size() && blocks_[next_gathered_].gathered == 0) ++next_gathered_;
    if (next_gathered_ == blocks_.size()) return;
    ops_.push_back(UnitGatherOp(workload_, plan_, blocks_[next_gathered_++].gathered));
  }

  void Reduce(const UnitBlock& block) {
    ops_.push_back(UnitReduceOp(workload_, plan_, block.reduced));
    if (!ShardsGradients(plan_) || !accumulate_) return;
    pending_.push_back(&block);
    if (!OverlapsGradients(plan_)) AddPending(nullptr);
  }

  // Adds the sums whose buffer the block needs; all of them if it is null.
  void AddPending(const UnitBlock* block) {
    std::erase_if(pending_, [&](const UnitBlock* earlier) {
      if (block != nullptr && !ShareBuffer(*earlier, *block)) return false;
      ops_.push_back(UnitAddOp(workload_, plan_, earlier->reduced));
      return true;
    });
  }

  const Workload& workload_;
  const ParallelPlan& plan_;
  const std::vector<UnitBlock>& blocks_;
  const bool accumulate_;
  std::vector<OpDesc> ops_;
  std::size_t next_gathered_ = 0;
  std::vector<const UnitBlock*> pending_;  // reduced, and not added yet
};

}  // namespace

OpDesc UnitGatherOp(const Workload& workload, const ParallelPlan& plan, std::int64_t elements) {
  return CommunicationOp(OpKind::kAllGather, workload.precision.parameters, CommGroup::kShard,
                         StateShards(plan), elements);
}

OpDesc UnitReduceOp(const Workload& workload, const ParallelPlan& plan, std::int64_t elements) {
  const DType type = workload.precision.gradients;
  if (!ShardsStates(plan))
    return CommunicationOp(OpKind::kAllReduceSum, type, CommGroup::kData, BatchRanks(plan), elements);
  return CommunicationOp(OpKind::kReduceScatter, type, CommGroup::kShard, StateShards(plan), elements);
}

OpDesc UnitAddOp(const Workload& workload, const ParallelPlan& plan, std::int64_t elements) {
  return {.kind = OpKind::kResidualAdd,
          .dtype = workload.precision.gradients,
          .dims = {elements / StateShards(plan) / kUnitAlignment, kUnitAlignment}};
}

std::vector<OpDesc> WithUnitOps(const Workload& workload, const ParallelPlan& plan,
                                const std::vector<UnitBlock>& blocks, bool accumulate) {
  return BlockLister(workload, plan, blocks, accumulate).List();
}

}  // namespace autocfg
