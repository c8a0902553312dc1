#include "search/cost/rank_unit_costs.h"

#include <algorithm>
#include <vector>

#include "search/cost/unit_overlap.h"
#include "search/plan/model_stages.h"
#include "search/plan/placement.h"

namespace autocfg {

RankUnitCosts::RankUnitCosts(const RunView& run, std::int64_t pipeline_rank, const BlockCosts& blocks)
    : run_(run),
      pipeline_rank_(pipeline_rank),
      blocks_(blocks),
      has_table_(pipeline_rank == 0 || (run.model.tied_embeddings && pipeline_rank + 1 == run.plan.pp)),
      has_positions_(pipeline_rank == 0 && run.model.position == Position::kLearned),
      has_output_(!run.model.tied_embeddings && pipeline_rank + 1 == run.plan.pp) {}

LayerRange RankUnitCosts::Layers(std::int64_t chunk) const {
  return LayersOf(blocks_, run_, StageOf(run_.plan, pipeline_rank_, chunk));
}

bool RankUnitCosts::HasLastStage(std::int64_t chunk) const {
  return IsLastStage(run_.plan, StageOf(run_.plan, pipeline_rank_, chunk));
}

double RankUnitCosts::AllReductions() const {
  const UnitTimes& reduce = blocks_.units.reduce;
  return (has_table_ ? reduce.token_embedding : 0) + (has_positions_ ? reduce.positions : 0) +
         (has_output_ ? reduce.output_layer : 0) +
         static_cast<double>(RankLayers(run_.model, run_.plan, pipeline_rank_)) * reduce.layer;
}

OverlapTime RankUnitCosts::ReductionsAfterCompute() const {
  const LayerRange layers = Layers(0);
  const bool first = HasFirstStage(0), last = HasLastStage(0);
  const bool only =
      MicrobatchCount(run_.workload, run_.plan) == 1;  // which writes gradients, and adds to none
  const std::vector<UnitSeconds> compute =
      SplitsBackward(run_.plan) ? WeightBlocks(blocks_, run_.plan, layers.count, only)
                                : BackwardBlocks(blocks_, run_.plan, layers, first, last, only);
  double of_compute_s = 0;
  for (const UnitSeconds& block : compute) of_compute_s += block.reduce_s;
  return TimeAfterComputes(std::max(0.0, AllReductions() - of_compute_s), compute, blocks_.units.contention);
}

OverlapTime RankUnitCosts::WaitForParameters(double gather_norms_s) const {
  if (ShardsParameters(run_.plan)) return {gather_norms_s, gather_norms_s};  // forwards gather the others
  std::vector<GatheredUnit> units = {{gather_norms_s, 0}};
  const UnitTimes& gather = blocks_.units.gather;
  const std::int64_t chunks = run_.plan.virtual_stages;
  std::vector<double> begins_s = {0};  // of the first forward of each chunk
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const double forward_s = CostsOfStage(blocks_, run_.plan, Layers(chunk), HasFirstStage(chunk),
                                          HasLastStage(chunk), /*host_op_s=*/0)
                                 .forward_s;
    begins_s.push_back(
        begins_s.back() +
        static_cast<double>(std::min(run_.plan.pp, MicrobatchCount(run_.workload, run_.plan))) * forward_s);
  }
  const double table_s = blocks_.embedding.forward_s;
  const double embedding_s = table_s + blocks_.positions.forward_s;
  double head_s = begins_s[static_cast<std::size_t>(chunks - 1)] +
                  (HasFirstStage(chunks - 1) ? embedding_s : blocks_.arrival.forward_s);
  ForEachRun(blocks_, Layers(chunks - 1),
             [&](const LayerCosts& costs, double times) { head_s += times * costs.layer.forward_s; });
  // In the order of the units: the embedding, the layers, the output layer.
  if (has_table_) units.push_back({gather.token_embedding, pipeline_rank_ == 0 ? 0 : head_s});
  if (has_positions_) units.push_back({gather.positions, table_s});
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    double needed_s = begins_s[static_cast<std::size_t>(chunk)] +
                      (HasFirstStage(chunk) ? embedding_s : blocks_.arrival.forward_s);
    ForEachRun(blocks_, Layers(chunk), [&](const LayerCosts& costs, double times) {
      for (double layer = 0; layer < times; ++layer, needed_s += costs.layer.forward_s)
        units.push_back({gather.layer, needed_s});
    });
  }
  if (has_output_) units.push_back({gather.output_layer, head_s});
  return TimeOfGathers(units, blocks_.units.contention);
}

}  // namespace autocfg
