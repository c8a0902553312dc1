#include "search/cost/engine_costs.h"

#include "search/plan/legality.h"

namespace autocfg {

void AddEngineCosts(const EngineProfile& engine, const ParallelPlan& plan, double pass_s,
                    BlockCosts& blocks) {
  for (auto& [layer, recompute] : blocks.layers) {
    if (plan.recompute == Recompute::kFull && engine.recomputes_whole_layers && !SplitsBackward(plan)) {
      recompute.recompute_s = recompute.backward_s = layer.forward_s;
      recompute.tp_recompute_s = layer.tp_forward_s;
      recompute.hidden_backward_s = layer.hidden_forward_s;
      recompute.backward_ops = layer.forward_ops;
    }
    layer.forward_s += engine.forward_passes * pass_s;
    layer.backward_s += engine.backward_passes * pass_s;
    if (plan.recompute != Recompute::kFull) continue;
    recompute.recompute_s += engine.forward_passes * pass_s;
    recompute.backward_s += engine.forward_passes * pass_s;
  }
}

ParallelPlan WithEngineOverlap(const EngineProfile& engine, ParallelPlan plan) {
  plan.grad_overlap = plan.grad_overlap || (engine.overlaps_gradients && plan.dp > 1);
  plan.param_overlap = plan.param_overlap || (engine.overlaps_parameters && ShardsStates(plan));
  return plan;
}

}  // namespace autocfg
