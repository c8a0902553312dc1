#include "trainer/layout/rank_shape.h"

#include <algorithm>

#include "search/plan/rank_mesh.h"

namespace autocfg::trainer {

RankShape MakeRankShape(const RunView& run, std::int64_t rank) {
  const RankMesh mesh(run.plan);
  RankShape s;
  static_cast<LocalDims&>(s) = LocalDimsOf(run);
  s.model = run.model;
  s.workload = run.workload;
  s.plan = run.plan;
  s.rank = rank;
  s.tensor = mesh.Coordinate(rank, Axis::kTensor);
  s.data = mesh.Position(rank, AxesThatSplit(Splits::kBatch));
  s.pipeline = mesh.Coordinate(rank, Axis::kPipeline);
  s.shards = StateShards(run.plan);
  s.shard = s.data % s.shards;
  s.replica = s.data / s.shards;
  s.place = PlaceOf(run.plan, s.pipeline);
  for (std::int64_t chunk = 0; chunk < run.plan.virtual_stages; ++chunk) {
    const std::int64_t stage = StageOf(run.plan, s.pipeline, chunk);
    const LayerRange layers = StageLayers(run.model, run.plan, stage);
    s.chunks.push_back({stage, layers, FullyRecomputedLayers(run.plan, layers.count),
                        LayersWithDelayedGradients(run.plan, layers.count), IsFirstStage(stage),
                        IsLastStage(run.plan, stage)});
  }

  s.first_row = SplitsSequence(run.plan) ? s.rows * s.tensor : 0;
  s.vocab_start = s.vocab * s.tensor;
  s.vocab_valid = std::clamp<std::int64_t>(run.model.vocab - s.vocab_start, 0, s.vocab);
  s.microbatches = MicrobatchCount(run.workload, run.plan);
  return s;
}

std::vector<std::int64_t> GroupRanks(const RankShape& s, CommGroup group) {
  const bool of_shards = group == CommGroup::kShard || group == CommGroup::kReplica;
  if (of_shards && s.shards == 1) return {};
  if (group == CommGroup::kData && s.shards > 1) return {};  // its work falls to the two above
  if (group == CommGroup::kEmbedding && !s.model.tied_embeddings) return {};
  std::vector<std::int64_t> ranks = RankMesh(s.plan, s.kv_replicas).Group(s.rank, group);
  if (ranks.size() < 2) ranks.clear();
  return ranks;
}

}  // namespace autocfg::trainer
