#include "search/cost/step_bounds.h"

#include <algorithm>
#include <array>

#include "search/cost/rank_unit_costs.h"
#include "search/plan/model_stages.h"
#include "search/plan/placement.h"

namespace autocfg {

double StepBounds::StepAtLeast(PlanCosts& costs, const ParallelPlan& plan, double host_op_s) {
  Know(costs, plan);
  FindAlikeRanks(costs, plan, host_op_s);
  return kRoundedBound *
         (BusyRankBound(ranks_, plan.schedule, MicrobatchCount(costs.problem().workload, plan)) +
          FirstRankAtLeast(costs, plan) + known_.common.scalars_s);
}

double StepBounds::OutsidePipeline(PlanCosts& costs, const ParallelPlan& plan) {
  Know(costs, plan);
  return FirstRankAtLeast(costs, plan) + known_.common.scalars_s;
}

StageCosts StepBounds::StageAtLeast(const ParallelPlan& plan, LayerRange layers, bool first, bool last,
                                    double host_op_s) {
  Known::Stage& known = known_.stages[(first ? 1 : 0) + (last ? 2 : 0)];
  if (known.layers != layers)
    known = {layers, SumWithoutRecompute(known_.common.blocks, layers, first, last)};
  return CostsAtLeast(known_.common.blocks, plan, layers, first, last, known.without_recompute, host_op_s);
}

void StepBounds::FindAlikeRanks(const PlanCosts& costs, const ParallelPlan& plan, double host_op_s) {
  const RunView run = costs.problem().With(plan);
  const BlockCosts& blocks = known_.common.blocks;
  const StageTerms terms{.ranks_per_core = costs.RanksPerCore(),
                         .overlaps_messages = OverlapsMessages(plan),
                         .single = MicrobatchCount(costs.problem().workload, plan) == 1};
  const double p2p_s = known_.common.p2p_s;
  const std::int64_t stages = StageCount(plan), chunks = plan.virtual_stages;
  ranks_.clear();
  if (plan.split != SplitMode::kExplicit && !blocks.kinds) {
    const LayerRange layers{.count = run.model.layers / stages};
    const StageCosts first = StageAtLeast(plan, layers, true, stages == 1, host_op_s);
    AlikeRanks& first_rank = ranks_.emplace_back();
    AddChunks(terms, first, 1, 0, stages == 1 ? 0 : p2p_s, first_rank);
    if (plan.pp == 1) return;
    const StageCosts last = StageAtLeast(plan, layers, false, true, host_op_s);
    StageCosts between;
    if (stages > 2) between = StageAtLeast(plan, layers, false, false, host_op_s);
    if (chunks > 1) AddChunks(terms, between, chunks - 1, p2p_s, p2p_s, first_rank);
    if (plan.pp > 2) {
      AlikeRanks& others = ranks_.emplace_back();
      others.count = plan.pp - 2;
      AddChunks(terms, between, chunks, p2p_s, p2p_s, others);
    }
    AlikeRanks& last_rank = ranks_.emplace_back();
    if (chunks > 1) AddChunks(terms, between, chunks - 1, p2p_s, p2p_s, last_rank);
    AddChunks(terms, last, 1, p2p_s, 0, last_rank);
    return;
  }
  // Stages between the first and the last have one of a few numbers of layers, one or two next to each other.
  // Of layers of several kinds, each stage has its own.
  struct Between {
    LayerRange layers = kNoLayers;
    StageCosts costs;
  };
  std::array<Between, 2> between;
  for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
    if (!blocks.kinds && rank >= 2 && rank + 1 < plan.pp && HasLayersOfRankBefore(plan, rank)) {
      ++ranks_.back().count;
      continue;
    }
    AlikeRanks& ranks = ranks_.emplace_back();
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t stage = StageOf(plan, rank, chunk);
      const LayerRange layers = LayersOf(blocks, run, stage);
      const bool first = IsFirstStage(stage), last = IsLastStage(plan, stage);
      if (first || last) {
        AddChunks(terms, StageAtLeast(plan, layers, first, last, host_op_s), 1, first ? 0 : p2p_s,
                  last ? 0 : p2p_s, ranks);
        continue;
      }
      Between& known = between[static_cast<std::size_t>(layers.count % 2)];
      if (known.layers != layers) known = {layers, StageAtLeast(plan, layers, false, false, host_op_s)};
      AddChunks(terms, known.costs, 1, p2p_s, p2p_s, ranks);
    }
  }
}

double StepBounds::FirstRankAtLeast(const PlanCosts& costs, const ParallelPlan& plan) const {
  const ModelSpec& model = costs.problem().model;
  const BlockCosts& blocks = known_.common.blocks;
  const RankCosts& rank = known_.first_rank.rank;
  double reduce_s = rank.norm_gradients_s + rank.reduce_s, wait_s = 0;
  if (OverlapsGradients(plan) && !ShardsGradients(plan)) {
    const UnitTimes& reduce = blocks.units.reduce;
    const double all_s = RankUnitCosts(costs.problem().With(plan), 0, blocks).AllReductions();
    if (blocks.units.hidden) {
      // The last compute reduces its units while it runs, the last of them after it.
      const std::int64_t of_stage = StageLayerCount(model, plan, 0);
      double last_s = reduce.token_embedding;
      double compute_s = blocks.embedding.backward_s + blocks.positions.backward_s +
                         blocks.arrival.backward_s + blocks.head.backward_s;
      ForEachRun(blocks, {.count = of_stage}, [&](const LayerCosts& layer, double times) {
        compute_s += times * layer.layer.backward_s + times * layer.recompute.backward_s;
      });
      if (SplitsBackward(plan)) {
        const std::int64_t delaying = LayersWithDelayedGradients(plan, of_stage);
        last_s = delaying > 0 ? reduce.layer : 0;
        compute_s = static_cast<double>(delaying) * blocks.weights.weight_s;
      }
      reduce_s += std::max(0.0, std::max(last_s, all_s - compute_s) - rank.norm_gradients_s);
    } else {
      reduce_s += all_s;
    }
  }
  if (OverlapsParameters(plan)) {
    const UnitTimes& gather = blocks.units.gather;
    if (!blocks.units.hidden) {
      wait_s = known_.first_rank.gather_all_s;
    } else {
      // The embedding is needed at once, the last layer of a rank with one stage once those before it are
      // done.
      wait_s = known_.first_rank.gather_norms_s;
      if (!ShardsParameters(plan)) {
        wait_s += gather.token_embedding;
        if (plan.virtual_stages == 1) {
          const std::int64_t layers = known_.first_rank_layers;
          double before_s = blocks.embedding.forward_s + blocks.positions.forward_s;
          ForEachRun(blocks, {.count = layers - 1}, [&](const LayerCosts& layer, double times) {
            before_s += times * layer.layer.forward_s;
          });
          wait_s = std::max(
              wait_s, wait_s + gather.positions + static_cast<double>(layers) * gather.layer - before_s);
        }
      }
      wait_s = std::max(0.0, wait_s - rank.zero_s);
    }
  }
  if (plan.pp > 1) reduce_s += rank.tied_s;
  return rank.zero_s + wait_s + reduce_s + rank.norm_s + rank.update_s + rank.gather_s;
}

void StepBounds::Know(PlanCosts& costs, const ParallelPlan& plan) {
  const bool same = known_.mesh == plan.mesh() && known_.layer == plan.layer() &&
                    known_.messages == plan.messages() && known_.states == plan.states() &&
                    known_.schedule == plan.schedule;
  const std::int64_t layers = RankLayers(costs.problem().model, plan, 0);
  if (!same || layers != known_.first_rank_layers) {
    if (!same) {
      known_.common = costs.CommonOf(plan);
      for (Known::Stage& stage : known_.stages) stage.layers = kNoLayers;
    }
    known_.first_rank = costs.OnceCostsOf(plan, 0);
    known_.first_rank_layers = layers;
    known_.mesh = plan.mesh();
    known_.layer = plan.layer();
    known_.messages = plan.messages();
    known_.states = plan.states();
    known_.schedule = plan.schedule;
  }
}

}  // namespace autocfg
