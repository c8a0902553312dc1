#include "search/planner/slice.h"

#include "search/plan/model_stages.h"

namespace autocfg {
namespace {

// Returns the time of the microbatches' forwards and backwards through all stages of a rank, without
// messages.
double ComputeSeconds(const PipelineCosts& costs, double microbatches, std::int64_t pipeline_rank) {
  double seconds = 0;
  for (auto s = static_cast<std::size_t>(pipeline_rank); s < costs.stages.size(); s += costs.ranks.size()) {
    const StageCosts& c = costs.stages[s];
    seconds += c.Total(microbatches) - microbatches * c.TensorMessages();
  }
  return seconds;
}

}  // namespace

SliceCoordinates ChooseSlice(CostModel& costs, const ParallelPlan& plan) {
  const PipelineCosts& pipeline = costs.CostsOf(plan);
  const auto microbatches = static_cast<double>(MicrobatchCount(costs.workload(), plan));
  SliceCoordinates longest;
  double longest_s = -1;
  for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
    const double seconds = ComputeSeconds(pipeline, microbatches, rank);
    if (seconds > longest_s) {
      longest.pipeline = rank;
      longest_s = seconds;
    }
  }
  return longest;
}

double SliceSeconds(CostModel& costs, const ParallelPlan& plan, std::int64_t pipeline_rank) {
  const PipelineCosts& pipeline = costs.CostsOf(plan);
  const RankCosts& rank = pipeline.ranks[static_cast<std::size_t>(pipeline_rank)];
  const auto microbatches = static_cast<double>(MicrobatchCount(costs.workload(), plan));
  return ComputeSeconds(pipeline, microbatches, pipeline_rank) + rank.zero_s + rank.norm_s + rank.update_s;
}

}  // namespace autocfg
