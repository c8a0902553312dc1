#include "search/cost/stage_costs.h"

#include <algorithm>
#include <cstddef>

#include "search/cost/op_lists/layer_ops.h"
#include "search/ops/hosted_time.h"
#include "search/plan/model_stages.h"

namespace autocfg {

std::vector<UnitSeconds> BackwardBlocks(const BlockCosts& blocks, const ParallelPlan& plan,
                                        std::int64_t layers, bool first, bool last, bool first_microbatch) {
  const std::int64_t recomputing = LayersWithRecomputeOps(plan, layers);
  const auto backward_s = [first_microbatch](const StageCosts& block) {
    return block.backward_s - (first_microbatch ? block.first_saves_s : 0);
  };
  std::vector<UnitSeconds> units;
  const auto push = [&](double UnitTimes::*unit, double compute_s, bool gathers) {
    units.push_back({.gather_s = gathers ? blocks.units.gather.*unit : 0,
                     .compute_s = compute_s,
                     .reduce_s = blocks.units.reduce.*unit,
                     .add_s = first_microbatch ? 0 : blocks.units.add.*unit});
  };
  if (last)
    push(&UnitTimes::output_layer, backward_s(blocks.head),
         ShardsParameters(plan) && !KeepsGatheredHead(plan));
  const double layer_s = backward_s(blocks.layer), recompute_s = backward_s(blocks.recompute);
  for (std::int64_t l = layers - 1; l >= 0; --l)
    push(&UnitTimes::layer, layer_s + (l < recomputing ? recompute_s : 0), ShardsParameters(plan));
  if (!first) return units;
  if (blocks.units.reduce.positions > 0) push(&UnitTimes::positions, backward_s(blocks.positions), false);
  push(&UnitTimes::token_embedding, backward_s(blocks.embedding), false);
  units.back().own_buffer = blocks.units.reduce.output_layer == 0;  // it is tied
  return units;
}

namespace {

double ComputeSeconds(const std::vector<UnitSeconds>& blocks) {
  double seconds = 0;
  for (const UnitSeconds& block : blocks) seconds += block.compute_s;
  return seconds;
}

// Adds what sharded gradients and parameters cost the only stage of such a plan.
void AddUnits(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers, StageCosts& c) {
  const UnitTimes &gather = blocks.units.gather, &add = blocks.units.add;
  const auto hidden_s = [](const std::vector<UnitSeconds>& units, double waited_s) {
    double total_s = 0;
    for (const UnitSeconds& unit : units) total_s += unit.gather_s + unit.reduce_s;
    return std::max(0.0, total_s - waited_s);
  };
  const UnitOverlap overlap{.gathers = blocks.units.hidden && OverlapsParameters(plan),
                            .reduces = blocks.units.hidden && OverlapsGradients(plan),
                            .contention = blocks.units.contention};
  if (ShardsParameters(plan)) {
    std::vector<UnitSeconds> forward = {{gather.token_embedding, blocks.embedding.forward_s}};
    if (gather.positions > 0) forward.push_back({gather.positions, blocks.positions.forward_s});
    forward.insert(forward.end(), static_cast<std::size_t>(layers), {gather.layer, blocks.layer.forward_s});
    // Without overlap a tied table is gathered again; with it, it has a buffer of its own.
    const bool tied = gather.output_layer == 0;
    const double again_s = tied && !OverlapsParameters(plan) ? gather.token_embedding : 0;
    forward.push_back({tied ? again_s : gather.output_layer, blocks.head.forward_s});
    const OverlapTime time = TimeOfStream(forward, overlap);
    const double exposed_s = time.seconds - ComputeSeconds(forward);
    c.forward_s += exposed_s;
    c.tp_forward_s += exposed_s;
    c.dp_s += exposed_s;
    if (overlap.gathers) c.hidden_forward_s += hidden_s(forward, time.waited_s);
  }
  const auto backward = [&](bool first_microbatch) {
    return BackwardBlocks(blocks, plan, layers, /*first=*/true, /*last=*/true, first_microbatch);
  };
  const std::vector<UnitSeconds> units = backward(/*first_microbatch=*/false);
  const std::vector<UnitSeconds> of_first = backward(/*first_microbatch=*/true);
  const OverlapTime later = TimeOfStream(units, overlap), first = TimeOfStream(of_first, overlap);
  const double later_s = later.seconds - ComputeSeconds(units);
  const double adds_s =
      add.token_embedding + add.positions + add.output_layer + static_cast<double>(layers) * add.layer;
  c.backward_s += later_s;
  c.first_saves_s += later_s - (first.seconds - ComputeSeconds(of_first));
  c.tp_backward_s += later_s - adds_s;
  c.dp_s += later_s - adds_s;
  if (overlap.gathers || overlap.reduces) {
    const double hidden_later_s = hidden_s(units, later.waited_s);
    c.hidden_backward_s += hidden_later_s;
    c.hidden_first_less_s += hidden_later_s - hidden_s(of_first, first.waited_s);
  }
  // As many adds as reductions.
  for (const UnitSeconds& unit : units) c.backward_ops += unit.reduce_s > 0 ? 1 : 0;
}

// Returns lower bounds of what AddUnits adds to the computes of a forward.
double ForwardUnitsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers) {
  const UnitTimes& gather = blocks.units.gather;
  const bool tied = gather.output_layer == 0;
  const double head_s = tied ? (OverlapsParameters(plan) ? 0 : gather.token_embedding) : gather.output_layer;
  const double gathers_s =
      gather.token_embedding + gather.positions + static_cast<double>(layers) * gather.layer + head_s;
  if (!blocks.units.hidden || !OverlapsParameters(plan)) return gathers_s;
  const double compute_s = blocks.embedding.forward_s + blocks.positions.forward_s +
                           static_cast<double>(layers) * blocks.layer.forward_s + blocks.head.forward_s;
  // All computes follow the first gather, and the head follows all of them.
  return std::max(gather.token_embedding, gathers_s + blocks.head.forward_s - compute_s);
}

// The same of a backward whose computes take `compute_s`.
double BackwardUnitsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers,
                            double compute_s, bool first_microbatch) {
  const UnitTimes &gather = blocks.units.gather, &reduce = blocks.units.reduce;
  const auto added = [&](double UnitTimes::*unit) {
    return first_microbatch || reduce.*unit == 0 ? 0 : blocks.units.add.*unit;
  };
  const UnitTimes add = {.token_embedding = added(&UnitTimes::token_embedding),
                         .positions = added(&UnitTimes::positions),
                         .layer = added(&UnitTimes::layer),
                         .output_layer = added(&UnitTimes::output_layer)};
  const auto times = static_cast<double>(layers);
  const bool gathers = ShardsParameters(plan), gathers_head = gathers && !KeepsGatheredHead(plan);
  // The head computes meanwhile if it is not gathered.
  const double first_gather_s = gathers_head && gather.output_layer > 0 ? gather.output_layer
                                : gathers ? std::max(0.0, gather.layer - blocks.head.backward_s)
                                          : 0;
  const double gathers_s = (gathers_head ? gather.output_layer : 0) + (gathers ? times * gather.layer : 0);
  const double reduces_s =
      reduce.token_embedding + reduce.positions + times * reduce.layer + reduce.output_layer;
  const double adds_s = add.token_embedding + add.positions + times * add.layer + add.output_layer;
  const bool overlaps_gathers = blocks.units.hidden && OverlapsParameters(plan);
  const bool overlaps_reduces = blocks.units.hidden && OverlapsGradients(plan);
  // One after the other: the computes, the collectives that do not overlap, the sums of gradients. The
  // embedding is reduced last; while that runs, the sums of up to two units before may.
  double in_turn_s = overlaps_gathers ? first_gather_s : gathers_s;
  if (overlaps_reduces) {
    const double meanwhile_s = 2 * std::max({add.positions, add.layer, add.output_layer});
    in_turn_s +=
        std::max(adds_s, reduce.token_embedding + std::max(adds_s - meanwhile_s, add.token_embedding));
  } else {
    in_turn_s += reduces_s + adds_s;
  }
  // Collectives too follow one another.
  return std::max(in_turn_s, gathers_s + reduces_s + add.token_embedding - compute_s);
}

// Adds less than AddUnits, in constant time.
void AddUnitsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers, StageCosts& c) {
  const UnitTimes& add = blocks.units.add;
  if (ShardsParameters(plan)) {
    const double exposed_s = ForwardUnitsAtLeast(blocks, plan, layers);
    c.forward_s += exposed_s;
    c.tp_forward_s += exposed_s;
  }
  const double later_s = BackwardUnitsAtLeast(blocks, plan, layers, c.backward_s, false);
  const double first_s = BackwardUnitsAtLeast(blocks, plan, layers, c.backward_s, true);
  const double adds_s =
      add.token_embedding + add.positions + add.output_layer + static_cast<double>(layers) * add.layer;
  c.backward_s += later_s;
  c.first_saves_s += later_s - first_s;
  c.tp_backward_s += later_s - adds_s;
  const UnitTimes& reduce = blocks.units.reduce;
  c.backward_ops += (reduce.token_embedding > 0 ? 1 : 0) + (reduce.positions > 0 ? 1 : 0) +
                    (reduce.output_layer > 0 ? 1 : 0) + (reduce.layer > 0 ? static_cast<double>(layers) : 0);
}

void Add(const StageCosts& block, double times, StageCosts& c) {
  c.forward_s += times * block.forward_s;
  c.backward_s += times * block.backward_s;
  c.recompute_s += times * block.recompute_s;
  c.tp_forward_s += times * block.tp_forward_s;
  c.tp_backward_s += times * block.tp_backward_s;
  c.tp_recompute_s += times * block.tp_recompute_s;
  c.forward_ops += times * block.forward_ops;
  c.backward_ops += times * block.backward_ops;
  c.first_saves_s += times * block.first_saves_s;
  c.weight_s += times * block.weight_s;
  c.weight_first_saves_s += times * block.weight_first_saves_s;
  c.tp_weight_s += times * block.tp_weight_s;
  c.dp_s += times * block.dp_s;
  c.hidden_forward_s += times * block.hidden_forward_s;
  c.hidden_backward_s += times * block.hidden_backward_s;
  c.hidden_first_less_s += times * block.hidden_first_less_s;
  c.weight_ops += times * block.weight_ops;
}

// Adds the block, and the message that a stage sends or receives.
void AddEnds(const BlockCosts& blocks, bool first, bool last, StageCosts& c) {
  if (first) {
    Add(blocks.embedding, 1, c);
    Add(blocks.positions, 1, c);
  }
  if (last) Add(blocks.head, 1, c);
  const StageCosts& arrival = blocks.arrival;
  if (!first) {
    c.forward_s += arrival.forward_s;
    c.tp_forward_s += arrival.tp_forward_s;
    c.forward_ops += arrival.forward_ops;
  }
  if (!last) {
    c.backward_s += arrival.backward_s;
    c.tp_backward_s += arrival.tp_backward_s;
    c.backward_ops += arrival.backward_ops;
  }
}

// The computes of a stage whose host issues an op in `host_op_s` seconds.
void IssueOps(double host_op_s, StageCosts& c) {
  c.forward_s = HostedSeconds(c.forward_s, c.forward_ops * host_op_s);
  const auto issue = [host_op_s](double ops, double& seconds, double& first_saves_s) {
    const double issue_s = ops * host_op_s;
    const double first_s = HostedSeconds(seconds - first_saves_s, issue_s);
    seconds = HostedSeconds(seconds, issue_s);
    first_saves_s = seconds - first_s;
  };
  issue(c.backward_ops, c.backward_s, c.first_saves_s);
  issue(c.weight_ops, c.weight_s, c.weight_first_saves_s);
}

}  // namespace

StageCosts CostsOfStage(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers, bool first,
                        bool last, double host_op_s) {
  const std::int64_t recomputing = LayersWithRecomputeOps(plan, layers);
  const std::int64_t delaying = LayersWithDelayedGradients(plan, layers);
  StageCosts c;
  Add(blocks.layer, static_cast<double>(layers), c);
  if (recomputing > 0) Add(blocks.recompute, static_cast<double>(recomputing), c);
  if (delaying > 0) Add(blocks.weights, static_cast<double>(delaying), c);
  AddEnds(blocks, first, last, c);
  if (ShardsGradients(plan)) AddUnits(blocks, plan, layers, c);
  IssueOps(host_op_s, c);
  return c;
}

StageCosts SumWithoutRecompute(const BlockCosts& blocks, std::int64_t layers, bool first, bool last) {
  StageCosts c;
  Add(blocks.layer, static_cast<double>(layers), c);
  AddEnds(blocks, first, last, c);
  return c;
}

StageCosts CostsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers,
                        const StageCosts& without_recompute, double host_op_s) {
  const std::int64_t recomputing = LayersWithRecomputeOps(plan, layers);
  const std::int64_t delaying = LayersWithDelayedGradients(plan, layers);
  StageCosts c = without_recompute;
  if (recomputing > 0) Add(blocks.recompute, static_cast<double>(recomputing), c);
  if (delaying > 0) Add(blocks.weights, static_cast<double>(delaying), c);
  if (ShardsGradients(plan)) AddUnitsAtLeast(blocks, plan, layers, c);
  IssueOps(host_op_s, c);
  return c;
}

}  // namespace autocfg
