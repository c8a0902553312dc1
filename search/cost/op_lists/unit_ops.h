// The collectives of units (search/cost/memory/rank_units.h) among the ops of an action: of sharded gradients
// and parameters in every microbatch, and with grad_overlap of all gradients in the rank's last compute
// (docs/engine.md, "Units"). Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// Returns the collective that gathers a unit's parameters, or reduces its gradient over the ranks that share
// its states (without sharded states: over the data group). `elements`: of the unit.
OpDesc UnitGatherOp(const Workload& workload, const ParallelPlan& plan, std::int64_t elements);
OpDesc UnitReduceOp(const Workload& workload, const ParallelPlan& plan, std::int64_t elements);
// Returns the op that adds a reduced gradient to those of earlier microbatches.
OpDesc UnitAddOp(const Workload& workload, const ParallelPlan& plan, std::int64_t elements);

// The ops of an action that use one unit: a layer, the embedding, the head.
struct UnitBlock {
  std::vector<OpDesc> ops;
  std::int64_t unit = 0;      // its number on the rank; the norms are 0
  std::int64_t gathered = 0;  // elements of the unit if it is gathered for this block
  std::int64_t reduced = 0;   // elements of the unit if its gradient is complete after this block
  bool has_buffer = false;    // of its own: a tied table
};

// Returns the ops of the blocks in a row, with their collectives. `accumulate`: reduced gradients are added
// to those of earlier microbatches.
//
// Collectives that overlap compute stand where they are issued. With param_overlap a unit is gathered while
// the block before it runs. With grad_overlap a sum is added when another unit needs its buffer, or at the
// end.
std::vector<OpDesc> WithUnitOps(const Workload& workload, const ParallelPlan& plan,
                                const std::vector<UnitBlock>& blocks, bool accumulate);

}  // namespace autocfg
