#include "search/cost/engine_costs.h"

#include "search/cost/memory/plan_memory.h"
#include "search/plan/legality.h"
#include "search/shapes/local_dims.h"

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

bool NeedsMemory(const EngineProfile& engine) {
  static const EngineProfile kOurs;
  return engine.bf16_gradient_bytes != kOurs.bf16_gradient_bytes ||
         engine.fp16_gradient_bytes != kOurs.fp16_gradient_bytes || engine.fp16_update_bytes != 0 ||
         engine.logit_bytes != 0 || engine.activation_share != 0;
}

namespace {

// `updated`: elements of parameters that the rank updates.
void AddEngineMemory(const EngineProfile& engine, const Precision& types, double updated, double logits,
                     MemoryBytes& memory) {
  const auto scale = [](std::int64_t& bytes, double by) {
    bytes = static_cast<std::int64_t>(by * static_cast<double>(bytes));
  };
  if (types.compute == DType::kF16) {
    if (!GradientsOfOps(types)) scale(memory.gradients, engine.fp16_gradient_bytes / SizeOf(types.gradients));
    memory.gradients += static_cast<std::int64_t>(engine.fp16_update_bytes * updated);
  } else if (types.compute == DType::kBF16 && !GradientsOfOps(types)) {
    scale(memory.gradients, engine.bf16_gradient_bytes / SizeOf(types.gradients));
  }
  scale(memory.activations, 1 + engine.activation_share);
  scale(memory.workspace, 1 + engine.activation_share);
  memory.workspace += static_cast<std::int64_t>(engine.logit_bytes * logits);
}

}  // namespace

MemoryBytes WorstRankMemory(const EngineProfile& engine, const RunView& run) {
  const PlanMemory memory(run);
  const LocalDims dims = LocalDimsOf(run);
  const double logits = static_cast<double>(dims.tokens) * static_cast<double>(dims.vocab);
  MemoryBytes worst;
  for (const RankLoad& load : LargestLoads(run)) {
    const RankUnits units = memory.Units(load);
    MemoryBytes bytes = memory.Of(load, units);
    const std::int64_t updated = units.Total() / StateShards(run.plan);
    AddEngineMemory(engine, run.workload.precision, static_cast<double>(updated),
                    load.place.last ? logits : 0, bytes);
    if (bytes.Arena() > worst.Arena()) worst = bytes;
  }
  return worst;
}

ParallelPlan WithEngineOverlap(const EngineProfile& engine, ParallelPlan plan) {
  plan.grad_overlap = plan.grad_overlap || (engine.overlaps_gradients && plan.dp > 1);
  plan.param_overlap = plan.param_overlap || (engine.overlaps_parameters && ShardsStates(plan));
  return plan;
}

}  // namespace autocfg
