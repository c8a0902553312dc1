#include "search/cost/stage_costs.h"

#include <algorithm>
#include <cstddef>

#include "search/blocks/layer.h"
#include "search/ops/hosted_time.h"
#include "search/plan/model_stages.h"
#include "search/plan/placement.h"

namespace autocfg {

namespace {

// A tied table is also the unit of the head.
bool IsTied(const BlockCosts& blocks) { return blocks.units.reduce.output_layer == 0; }
double UnitTimes::*HeadUnit(const BlockCosts& blocks) {
  return IsTied(blocks) ? &UnitTimes::token_embedding : &UnitTimes::output_layer;
}

double BackwardSeconds(const StageCosts& block, bool first_microbatch) {
  return block.backward_s - (first_microbatch ? block.first_saves_s : 0);
}

}  // namespace

std::vector<UnitSeconds> BackwardBlocks(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers,
                                        bool first, bool last, bool first_microbatch) {
  const std::int64_t recomputing = LayersWithRecomputeOps(plan, layers.count);
  const std::int64_t delaying = LayersWithDelayedGradients(plan, layers.count);
  std::vector<UnitSeconds> units;
  const auto push = [&](double UnitTimes::*unit, double compute_s, bool gathers, bool completes) {
    units.push_back({.gather_s = gathers ? blocks.units.gather.*unit : 0,
                     .compute_s = compute_s,
                     .reduce_s = completes ? blocks.units.reduce.*unit : 0,
                     .add_s = completes && !first_microbatch ? blocks.units.add.*unit : 0});
  };
  if (last) {
    push(HeadUnit(blocks), BackwardSeconds(blocks.head, first_microbatch),
         ShardsParameters(plan) && !KeepsGatheredHead(plan), !first || !IsTied(blocks));
    units.back().own_buffer = IsTied(blocks);
  } else {
    units.push_back({.compute_s = blocks.arrival.backward_s});
  }
  for (std::int64_t l = layers.count - 1; l >= 0; --l) {
    const LayerCosts& costs = blocks.Of(layers.first + l);
    const double recompute_s = l < recomputing ? BackwardSeconds(costs.recompute, first_microbatch) : 0;
    push(&UnitTimes::layer, BackwardSeconds(costs.layer, first_microbatch) + recompute_s,
         ShardsParameters(plan), l < layers.count - delaying);
  }
  if (!first) return units;
  if (blocks.units.reduce.positions > 0)
    push(&UnitTimes::positions, BackwardSeconds(blocks.positions, first_microbatch), false, true);
  push(&UnitTimes::token_embedding, BackwardSeconds(blocks.embedding, first_microbatch), false, true);
  units.back().own_buffer = IsTied(blocks);
  return units;
}

std::vector<UnitSeconds> WeightBlocks(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers,
                                      bool first_microbatch) {
  const StageCosts& weights = blocks.weights;
  const UnitSeconds of_layer{
      .compute_s = weights.weight_s - (first_microbatch ? weights.weight_first_saves_s : 0),
      .reduce_s = blocks.units.reduce.layer,
      .add_s = first_microbatch ? 0 : blocks.units.add.layer};
  return std::vector(static_cast<std::size_t>(LayersWithDelayedGradients(plan, layers)), of_layer);
}

namespace {

std::vector<UnitSeconds> ForwardBlocks(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers,
                                       bool first, bool last) {
  const UnitTimes& gather = blocks.units.gather;
  std::vector<UnitSeconds> units;
  if (first) {
    units.push_back({gather.token_embedding, blocks.embedding.forward_s});
    if (gather.positions > 0) units.push_back({gather.positions, blocks.positions.forward_s});
  } else {
    units.push_back({.compute_s = blocks.arrival.forward_s});
  }
  ForEachRun(blocks, layers, [&](const LayerCosts& costs, double times) {
    units.insert(units.end(), static_cast<std::size_t>(times), {gather.layer, costs.layer.forward_s});
  });
  if (!last) return units;
  // With overlap, the table that the only stage has read stays in a buffer of its own.
  const bool kept = first && IsTied(blocks) && OverlapsParameters(plan);
  units.push_back({kept ? 0 : gather.*HeadUnit(blocks), blocks.head.forward_s});
  return units;
}

UnitOverlap OverlapOf(const BlockCosts& blocks, const ParallelPlan& plan) {
  return {.gathers = blocks.units.hidden && OverlapsParameters(plan),
          .reduces = blocks.units.hidden && OverlapsGradients(plan),
          .contention = blocks.units.contention};
}

// What the units of an action add to its computes.
struct UnitEffect {
  double seconds = 0;
  double adds_s = 0;  // of it, the sums of gradients
  double hidden_s = 0;
  double adds = 0;  // ops; as many as reductions
};

UnitEffect EffectOf(const std::vector<UnitSeconds>& units, UnitOverlap overlap) {
  const OverlapTime time = TimeOfStream(units, overlap);
  UnitEffect effect;
  double compute_s = 0, collectives_s = 0;  // in the order of the stream, so that what adds nothing is 0
  for (const UnitSeconds& unit : units) {
    compute_s += unit.compute_s;
    collectives_s += unit.gather_s + unit.reduce_s;
    effect.adds_s += unit.add_s;
    effect.adds += unit.reduce_s > 0 ? 1 : 0;
  }
  effect.seconds = time.seconds - compute_s;
  if (overlap.gathers || overlap.reduces) effect.hidden_s = std::max(0.0, collectives_s - time.waited_s);
  return effect;
}

// Adds what sharded gradients and parameters cost a stage.
void AddUnits(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers, bool first, bool last,
              StageCosts& c) {
  const UnitOverlap overlap = OverlapOf(blocks, plan);
  if (ShardsParameters(plan)) {
    const UnitEffect forward = EffectOf(ForwardBlocks(blocks, plan, layers, first, last), overlap);
    c.forward_s += forward.seconds;
    c.tp_forward_s += forward.seconds;
    c.dp_s += forward.seconds;
    c.hidden_forward_s += forward.hidden_s;
  }
  const auto add = [&](const UnitEffect& later, const UnitEffect& of_first, double& seconds,
                       double& first_saves_s, double& messages_s, double& ops) {
    seconds += later.seconds;
    first_saves_s += later.seconds - of_first.seconds;
    messages_s += later.seconds - later.adds_s;
    ops += later.adds;
    c.dp_s += later.seconds - later.adds_s;
    c.hidden_backward_s += later.hidden_s;
    c.hidden_first_less_s += later.hidden_s - of_first.hidden_s;
  };
  const auto backward = [&](bool first_microbatch) {
    return EffectOf(BackwardBlocks(blocks, plan, layers, first, last, first_microbatch), overlap);
  };
  add(backward(false), backward(true), c.backward_s, c.first_saves_s, c.tp_backward_s, c.backward_ops);
  if (LayersWithDelayedGradients(plan, layers.count) == 0) return;
  const auto weights = [&](bool first_microbatch) {
    return EffectOf(WeightBlocks(blocks, plan, layers.count, first_microbatch), overlap);
  };
  add(weights(false), weights(true), c.weight_s, c.weight_first_saves_s, c.tp_weight_s, c.weight_ops);
}

// Sums over the units of an action, for a bound in constant time.
struct UnitSums {
  double gathers_s = 0;
  double first_gather_s = 0;  // what the computes before it do not hide of the first one
  double reduces_s = 0, last_reduce_s = 0;
  double adds_s = 0, last_add_s = 0, most_add_s = 0;
  double compute_s = 0, last_compute_s = 0;  // the last compute follows all gathers

  void Reduce(const UnitCosts& units, double UnitTimes::*unit, double times, bool adds) {
    if (times == 0 || units.reduce.*unit == 0) return;
    reduces_s += times * units.reduce.*unit;
    last_reduce_s = units.reduce.*unit;
    last_add_s = adds ? units.add.*unit : 0;
    adds_s += times * last_add_s;
    most_add_s = std::max(most_add_s, last_add_s);
  }
};

// Returns at most EffectOf(...).seconds.
double EffectAtLeast(const UnitSums& sums, UnitOverlap overlap) {
  // One after the other: the computes, the collectives that do not overlap, the sums of gradients. While the
  // last reduction runs, the sums of up to two units before may.
  double in_turn_s = overlap.gathers ? sums.first_gather_s : sums.gathers_s;
  if (overlap.reduces) {
    const double before_s = std::max(sums.adds_s - 2 * sums.most_add_s, sums.last_add_s);
    in_turn_s += std::max(sums.adds_s, sums.last_reduce_s + before_s);
  } else {
    in_turn_s += sums.reduces_s + sums.adds_s;
  }
  // Collectives too follow one another.
  const double end_s = sums.reduces_s > 0 ? sums.last_add_s : sums.last_compute_s;
  return std::max(in_turn_s, sums.gathers_s + sums.reduces_s + end_s - sums.compute_s);
}

// Adds at most as much as AddUnits, in constant time.
void AddUnitsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange range, bool first,
                     bool last, StageCosts& c) {
  const std::int64_t layers = range.count;
  const UnitOverlap overlap = OverlapOf(blocks, plan);
  const UnitTimes& gather = blocks.units.gather;
  const double gathers = ShardsParameters(plan) ? 1 : 0, all = gathers * static_cast<double>(layers);
  const std::int64_t delaying = LayersWithDelayedGradients(plan, layers);
  const bool tied = IsTied(blocks);
  const double head_s = last ? gathers * gather.*HeadUnit(blocks) : 0;
  if (ShardsParameters(plan)) {
    UnitSums sums{.gathers_s = all * gather.layer, .compute_s = c.forward_s};
    if (first) sums.gathers_s += gather.token_embedding + gather.positions;
    if (!first || !tied || !OverlapsParameters(plan)) sums.gathers_s += head_s;
    sums.first_gather_s =
        first ? gather.token_embedding : std::max(0.0, gather.layer - blocks.arrival.forward_s);
    sums.last_compute_s = (last ? blocks.head : blocks.Of(range.first + layers - 1).layer).forward_s;
    const double exposed_s = EffectAtLeast(sums, overlap);
    c.forward_s += exposed_s;
    c.tp_forward_s += exposed_s;
  }
  const auto backward = [&](bool adds) {
    const double of_head_s = KeepsGatheredHead(plan) ? 0 : head_s;
    UnitSums sums{.gathers_s = of_head_s + all * gather.layer, .compute_s = c.backward_s};
    sums.first_gather_s =
        of_head_s > 0
            ? of_head_s
            : std::max(0.0, gathers * gather.layer - (last ? blocks.head : blocks.arrival).backward_s);
    sums.last_compute_s = BackwardSeconds(blocks.Of(range.first).layer, !adds);
    if (last && (!first || !tied)) sums.Reduce(blocks.units, HeadUnit(blocks), 1, adds);
    sums.Reduce(blocks.units, &UnitTimes::layer, static_cast<double>(layers - delaying), adds);
    if (first) {
      sums.Reduce(blocks.units, &UnitTimes::positions, 1, adds);
      sums.Reduce(blocks.units, &UnitTimes::token_embedding, 1, adds);
    } else if (layers == delaying) {
      sums.last_reduce_s = sums.last_add_s = 0;  // that of the head, with which the stage begins
    }
    return sums;
  };
  const auto weights = [&](bool adds) {
    UnitSums sums{.compute_s = c.weight_s};
    sums.Reduce(blocks.units, &UnitTimes::layer, static_cast<double>(delaying), adds);
    return sums;
  };
  const auto add = [&](const UnitSums& later, const UnitSums& of_first, double& seconds,
                       double& first_saves_s, double& messages_s) {
    const double later_s = EffectAtLeast(later, overlap);
    seconds += later_s;
    first_saves_s += later_s - EffectAtLeast(of_first, overlap);
    messages_s += later_s - later.adds_s;
  };
  add(backward(true), backward(false), c.backward_s, c.first_saves_s, c.tp_backward_s);
  add(weights(true), weights(false), c.weight_s, c.weight_first_saves_s, c.tp_weight_s);
  const UnitTimes& reduce = blocks.units.reduce;
  c.backward_ops += static_cast<double>(layers - delaying) * (reduce.layer > 0 ? 1 : 0);
  c.weight_ops += static_cast<double>(delaying) * (reduce.layer > 0 ? 1 : 0);
  if (first) c.backward_ops += (reduce.token_embedding > 0 ? 1 : 0) + (reduce.positions > 0 ? 1 : 0);
  if (last && (!first || !tied)) c.backward_ops += reduce.*HeadUnit(blocks) > 0 ? 1 : 0;
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

void AddRecompute(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers, StageCosts& c) {
  layers.count = LayersWithRecomputeOps(plan, layers.count);
  if (layers.count == 0) return;
  ForEachRun(blocks, layers, [&](const LayerCosts& costs, double times) { Add(costs.recompute, times, c); });
}

}  // namespace

LayerRange LayersOf(const BlockCosts& blocks, const RunView& run, std::int64_t stage) {
  if (blocks.kinds) return StageLayers(run.model, run.plan, stage);
  return {.count = StageLayerCount(run.model, run.plan, stage)};
}

StageCosts CostsOfStage(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers, bool first,
                        bool last, double host_op_s) {
  const std::int64_t delaying = LayersWithDelayedGradients(plan, layers.count);
  StageCosts c;
  ForEachRun(blocks, layers, [&](const LayerCosts& costs, double times) { Add(costs.layer, times, c); });
  AddRecompute(blocks, plan, layers, c);
  if (delaying > 0) Add(blocks.weights, static_cast<double>(delaying), c);
  AddEnds(blocks, first, last, c);
  if (ShardsGradients(plan)) AddUnits(blocks, plan, layers, first, last, c);
  IssueOps(host_op_s, c);
  return c;
}

StageCosts SumWithoutRecompute(const BlockCosts& blocks, LayerRange layers, bool first, bool last) {
  StageCosts c;
  ForEachRun(blocks, layers, [&](const LayerCosts& costs, double times) { Add(costs.layer, times, c); });
  AddEnds(blocks, first, last, c);
  return c;
}

StageCosts CostsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers, bool first,
                        bool last, const StageCosts& without_recompute, double host_op_s) {
  const std::int64_t delaying = LayersWithDelayedGradients(plan, layers.count);
  StageCosts c = without_recompute;
  AddRecompute(blocks, plan, layers, c);
  if (delaying > 0) Add(blocks.weights, static_cast<double>(delaying), c);
  if (ShardsGradients(plan)) AddUnitsAtLeast(blocks, plan, layers, first, last, c);
  IssueOps(host_op_s, c);
  return c;
}

}  // namespace autocfg
