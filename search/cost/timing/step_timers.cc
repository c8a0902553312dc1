#include "search/cost/timing/step_timers.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "search/cost/timing/stage_times.h"
#include "search/schedule/looped_program.h"

namespace autocfg {

double SecondsOf(const PipelineCosts& costs, double ranks_per_core, std::int64_t pipeline_rank,
                 const Action& action) {
  const RankCosts& rank = costs.ranks[static_cast<std::size_t>(pipeline_rank)];
  const auto stage = [&]() -> const StageCosts& {
    return costs.stages[static_cast<std::size_t>(action.stage)];
  };
  switch (action.kind) {
    case ActionKind::kZeroGradients: return rank.zero_s;
    case ActionKind::kForward: return UnloadedForward(stage(), ranks_per_core);
    case ActionKind::kBackward: return UnloadedBackward(stage(), ranks_per_core);
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient: return costs.p2p_s;
    case ActionKind::kReduceGradients: return rank.reduce_s;
    case ActionKind::kSumTiedEmbedding: return costs.tied_s;
    case ActionKind::kReduceScalars: return rank.norm_s + costs.scalars_s;
    case ActionKind::kOptimizer: return rank.update_s;
  }
  throw std::logic_error("an action of no known kind");
}

TimedStep TimeStep(const ProgramTimer& timer, const PipelineCosts& costs, double ranks_per_core) {
  return timer.Time([&](std::int32_t rank, const Action& action) {
    return SecondsOf(costs, ranks_per_core, rank, action);
  });
}

std::size_t StepTimers::ShapeHash::operator()(const PipelineShape& shape) const {
  return absl::HashOf(shape.schedule, shape.ranks, shape.virtual_stages, shape.microbatches,
                      shape.reduces_gradients);
}

const ProgramTimer& StepTimers::Find(const PipelineShape& shape) {
  if (const auto found = timers_.find(shape); found != timers_.end()) return *found->second;
  auto timer = ProgramTimer::Create(LowerLoops(shape));
  if (!timer.ok()) throw std::logic_error(std::string(timer.status().message()));
  nodes_ += timer->node_count();
  if (nodes_ > kMostNodes) {
    timers_.clear();
    nodes_ = timer->node_count();
  }
  return *timers_.emplace(shape, std::make_shared<const ProgramTimer>(*std::move(timer))).first->second;
}

}  // namespace autocfg
