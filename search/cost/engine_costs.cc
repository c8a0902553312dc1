#include "search/cost/engine_costs.h"

#include "search/plan/legality.h"

namespace autocfg {

void AddEngineCosts(const EngineProfile& engine, const ParallelPlan& plan, double pass_s,
                    BlockCosts& blocks) {
  StageCosts& recompute = blocks.recompute;
  if (plan.recompute == Recompute::kFull && engine.recomputes_whole_layers && !SplitsBackward(plan)) {
    recompute.recompute_s = recompute.backward_s = blocks.layer.forward_s;
    recompute.tp_recompute_s = blocks.layer.tp_forward_s;
    recompute.backward_ops = blocks.layer.forward_ops;
  }
  blocks.layer.forward_s += engine.forward_passes * pass_s;
  blocks.layer.backward_s += engine.backward_passes * pass_s;
  if (plan.recompute != Recompute::kFull) return;
  recompute.recompute_s += engine.forward_passes * pass_s;
  recompute.backward_s += engine.forward_passes * pass_s;
}

bool NeedsMemory(const EngineProfile& engine) {
  return engine.bytes_per_parameter != 0 || engine.activation_share != 0;
}

void AddEngineMemory(const EngineProfile& engine, const Precision& precision, MemoryBytes& memory) {
  const double parameters =
      static_cast<double>(memory.parameters) / static_cast<double>(SizeOf(precision.parameters));
  memory.gradients += static_cast<std::int64_t>(engine.bytes_per_parameter * parameters);
  memory.activations +=
      static_cast<std::int64_t>(engine.activation_share * static_cast<double>(memory.activations));
}

ParallelPlan WithEngineOverlap(const EngineProfile& engine, ParallelPlan plan) {
  plan.grad_overlap = plan.grad_overlap || (engine.overlaps_gradients && plan.dp > 1);
  plan.param_overlap = plan.param_overlap || (engine.overlaps_parameters && ShardsStates(plan));
  return plan;
}

}  // namespace autocfg
