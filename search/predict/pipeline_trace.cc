#include "search/predict/pipeline_trace.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "search/cost/timing/step_timers.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {
namespace {

// Returns the least divisor above 1; of 1, 1.
std::int64_t LeastFactor(std::int64_t number) {
  for (std::int64_t factor = 2; factor * factor <= number; ++factor) {
    if (number % factor == 0) return factor;
  }
  return number;
}

// Returns the plan with as few ranks as keep its groups: what a rank does depends on whether a group has more
// than one rank, not on how many.
ParallelPlan WithFewRanks(const ParallelPlan& plan) {
  ParallelPlan few = plan;
  for (const AxisRow& row : kAxes) {
    if (row.splits != Splits::kDepth) few.*row.size = LeastFactor(plan.*row.size);
  }
  if (plan.dp_shard == 0) return few;
  few.dp_shard = LeastFactor(plan.dp_shard);
  few.dp = few.dp_shard * LeastFactor(plan.dp / plan.dp_shard);
  return few;
}

}  // namespace

absl::StatusOr<PipelineTrace> TracePipeline(CostModel& costs, const ParallelPlan& plan) {
  const ParallelPlan few = WithFewRanks(plan);
  Workload share = costs.workload();
  share.global_batch = share.global_batch / BatchRanks(plan) * BatchRanks(few);
  AUTOCFG_RETURN_IF_ERROR(CheckProgramSize(share, few));
  PipelineTrace trace{.program = Lower({costs.model(), share, few}), .ranks = {}};
  double ranks_per_core = 1;
  for (const NodeGroup& group : costs.cluster().groups)
    ranks_per_core = std::max(ranks_per_core, group.ranks_per_core);
  const RankMesh mesh(few);
  const PipelineCosts& seconds = costs.CostsOf(plan);
  auto step = TraceProgram(trace.program, [&](std::int32_t rank, const Action& action) {
    return SecondsOf(seconds, ranks_per_core, mesh.Coordinate(rank, Axis::kPipeline), action);
  });
  // The program is valid by construction; a stuck one is a bug that must not pass as a timeline.
  if (!step.ok()) throw std::logic_error(std::string(step.status().message()));
  trace.step_time_s = step->step_time_s;
  trace.ranks.resize(static_cast<std::size_t>(mesh.size(Axis::kPipeline)));
  for (const TraceRow& row : step->rows) {
    const std::int64_t stage = mesh.Coordinate(row.rank, Axis::kPipeline);
    if (row.rank == mesh.RankAt({{Axis::kPipeline, stage}}))
      trace.ranks[static_cast<std::size_t>(stage)].push_back(row);
  }
  return trace;
}

}  // namespace autocfg
