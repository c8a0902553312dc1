#include "search/cost/timing/step_timers.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "search/cost/timing/stage_times.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/looped_program.h"

namespace autocfg {

double SecondsOf(const PipelineCosts& costs, double ranks_per_core, std::int64_t pipeline_rank,
                 const Action& action) {
  const RankCosts& rank = costs.ranks[static_cast<std::size_t>(pipeline_rank)];
  const auto stage = [&]() -> const StageCosts& {
    return costs.stages[static_cast<std::size_t>(action.stage)];
  };
  switch (action.kind) {
    case ActionKind::kZeroScalars: return rank.zero_s + rank.wait_s;
    case ActionKind::kForward: return UnloadedForward(stage(), ranks_per_core);
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      return UnloadedBackward(stage(), ranks_per_core) -
             (WritesGradients(action.kind, action.microbatch) ? UnloadedSaving(stage(), ranks_per_core) : 0);
    case ActionKind::kWeightGradient:
      return UnloadedWeights(stage(), ranks_per_core) - (WritesGradients(action.kind, action.microbatch)
                                                             ? UnloadedWeightSaving(stage(), ranks_per_core)
                                                             : 0);
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient: return costs.p2p_s;
    case ActionKind::kSumNormGradients: return rank.norm_gradients_s;
    case ActionKind::kReduceGradients: return rank.reduce_s;
    case ActionKind::kSumTiedEmbedding: return rank.tied_s;
    case ActionKind::kReduceScalars: return rank.norm_s + costs.scalars_s;
    case ActionKind::kOptimizer: return rank.update_s;
    case ActionKind::kGatherParameters: return rank.gather_s;
  }
  throw std::logic_error("an action of no known kind");
}

TimedStep TimeStep(const ProgramTimer& timer, const PipelineCosts& costs, double ranks_per_core) {
  return timer.Time([&](std::int32_t rank, const Action& action) {
    return SecondsOf(costs, ranks_per_core, rank, action);
  });
}

namespace {

PipelineShape KindOf(PipelineShape shape) {
  shape.microbatches = 0;
  return shape;
}

}  // namespace

std::size_t StepTimers::ShapeHash::operator()(const PipelineShape& shape) const {
  return absl::HashOf(shape.schedule, shape.ranks, shape.virtual_stages, shape.microbatches,
                      shape.reduces_gradients, shape.sums_norm_gradients, shape.overlaps_messages);
}

std::size_t StepTimers::Model::Bytes() const {
  std::size_t bytes = repetitions.capacity() * sizeof(repetitions[0]) + times.capacity() * sizeof(times[0]);
  for (const ComputeLoops& of_rank : computes) {
    bytes += sizeof(ComputeLoops) + of_rank.capacity() * sizeof(ComputeLoop);
    for (const ComputeLoop& loop : of_rank) bytes += loop.computes.capacity() * sizeof(StageCompute);
  }
  return bytes;
}

const ProgramTimer& StepTimers::Find(const PipelineShape& shape) {
  if (const auto found = timers_.find(shape); found != timers_.end()) return *found->second;
  std::shared_ptr<const ProgramTimer> timer = MakeByModel(shape);
  if (timer == nullptr) timer = Make(shape);
  return *timers_.emplace(shape, std::move(timer)).first->second;
}

std::shared_ptr<const ProgramTimer> StepTimers::Make(const PipelineShape& shape) {
  LoopedProgram program = LowerLoops(shape);
  auto made = ProgramTimer::Create(program);
  if (!made.ok()) throw std::logic_error(std::string(made.status().message()));
  bytes_ += made->SharedBytes();
  if (bytes_ > kMostBytes) {
    timers_.clear();
    models_.clear();
    bytes_ = made->SharedBytes();
  }
  auto timer = std::make_shared<const ProgramTimer>(*std::move(made));
  const PipelineShape kind = KindOf(shape);
  const auto known = models_.find(kind);
  if (known != models_.end() && known->second.shape.microbatches > shape.microbatches) return timer;
  Model model{.shape = shape,
              .computes = {},
              .repetitions = std::move(program.repetitions),
              .times = {},
              .timer = timer};
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank)
    model.computes.push_back(MakeComputeLoops(shape, rank));
  for (const LoopedProgram::Repetition& r : model.repetitions)
    model.times.push_back(program.ranks[static_cast<std::size_t>(r.rank)][r.loop].times);
  bytes_ += model.Bytes();
  models_.insert_or_assign(kind, std::move(model));
  return timer;
}

std::shared_ptr<const ProgramTimer> StepTimers::MakeByModel(const PipelineShape& shape) const {
  const auto known = models_.find(KindOf(shape));
  if (known == models_.end()) return nullptr;
  const Model& model = known->second;
  std::vector<LoopGrowth> growth;
  std::size_t next = 0;  // of the repetitions
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    const ComputeLoops computes = MakeComputeLoops(shape, rank);
    const ComputeLoops& modelled = model.computes[static_cast<std::size_t>(rank)];
    if (computes.size() != modelled.size()) return nullptr;
    for (std::size_t i = 0; i < computes.size(); ++i) {
      const bool repeats = next < model.repetitions.size() && model.repetitions[next].rank == rank &&
                           model.repetitions[next].computes == i;
      const std::size_t repetition = next;
      if (repeats) ++next;
      if (computes[i].computes != modelled[i].computes) return nullptr;
      const std::int64_t more = computes[i].count - modelled[i].count;
      if (more == 0) continue;
      const auto round = static_cast<std::int64_t>(computes[i].computes.size());
      if (!repeats || more % round != 0 || model.times[repetition] + more / round < 2) return nullptr;
      growth.push_back({static_cast<std::int32_t>(rank), model.repetitions[repetition].loop, more / round});
    }
  }
  std::optional<ProgramTimer> timer = model.timer->Grown(growth);
  return timer ? std::make_shared<const ProgramTimer>(*std::move(timer)) : nullptr;
}

}  // namespace autocfg
