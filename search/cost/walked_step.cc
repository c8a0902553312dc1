#include "search/cost/walked_step.h"

#include <algorithm>

#include "search/cost/closed_form.h"
#include "search/cost/pipeline_walk.h"

namespace autocfg {

std::vector<double> WalkedEnds(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                               double ranks_per_core) {
  std::vector<StageSeconds> stages;
  stages.reserve(costs.stages.size());
  for (const StageCosts& c : costs.stages)
    stages.push_back({UnloadedForward(c, ranks_per_core), UnloadedBackward(c, ranks_per_core)});
  std::vector<double> begin;
  begin.reserve(costs.ranks.size());
  for (const RankCosts& rank : costs.ranks) begin.push_back(rank.zero_s);
  return WalkPipeline({.stages = stages,
                       .begin_s = begin,
                       .message_s = costs.p2p_s,
                       .forwards_first = schedule == Schedule::kGPipe},
                      microbatches)
      .last_backward_s;
}

double StepEnd(const PipelineCosts& costs, const std::vector<double>& last_backward_s) {
  double ready = 0, first = 0, last = 0, norm = 0, update = 0;
  for (std::size_t r = 0; r < costs.ranks.size(); ++r) {
    const RankCosts& rank = costs.ranks[r];
    last = last_backward_s[r] + rank.reduce_s;
    if (r == 0) first = last;
    ready = std::max(ready, last);
    norm = std::max(norm, rank.norm_s);
    update = std::max(update, rank.update_s);
  }
  ready = std::max(ready, std::max(first, last) + costs.tied_s);
  return ready + norm + costs.scalars_s + update;
}

}  // namespace autocfg
