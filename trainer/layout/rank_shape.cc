#include "trainer/layout/rank_shape.h"

#include <algorithm>

#include "search/plan/rank_mesh.h"

namespace autocfg::trainer {

RankShape MakeRankShape(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                        std::int64_t rank) {
  const RankMesh mesh(plan);
  RankShape s;
  static_cast<LocalDims&>(s) = LocalDimsOf(model, workload, plan);
  s.model = model;
  s.workload = workload;
  s.plan = plan;
  s.rank = rank;
  s.tensor = mesh.Coordinate(rank, Axis::kTensor);
  s.data = mesh.Coordinate(rank, Axis::kData);
  s.pipeline = mesh.Coordinate(rank, Axis::kPipeline);
  s.shards = StateShards(plan);
  s.shard = s.data % s.shards;
  s.replica = s.data / s.shards;
  s.place = PlaceOf(plan, s.pipeline);
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    const std::int64_t stage = StageOf(plan, s.pipeline, chunk);
    const LayerRange layers = StageLayers(model, plan, stage);
    s.chunks.push_back({stage, layers, FullyRecomputedLayers(plan, layers.count), IsFirstStage(stage),
                        IsLastStage(plan, stage)});
  }

  s.first_row = SplitsSequence(plan) ? s.rows * s.tensor : 0;
  s.vocab_start = s.vocab * s.tensor;
  s.vocab_valid = std::clamp<std::int64_t>(model.vocab - s.vocab_start, 0, s.vocab);
  s.microbatches = MicrobatchCount(workload, plan);
  return s;
}

std::vector<std::int64_t> GroupRanks(const RankShape& s, CommGroup group) {
  const bool of_shards = group == CommGroup::kShard || group == CommGroup::kReplica;
  if (of_shards && s.shards == 1) return {};
  if (group == CommGroup::kData && s.shards > 1) return {};  // its work falls to the two above
  if (group == CommGroup::kEmbedding && !s.model.tied_embeddings) return {};
  std::vector<std::int64_t> ranks = RankMesh(s.plan).Group(s.rank, group);
  if (ranks.size() < 2) ranks.clear();
  return ranks;
}

}  // namespace autocfg::trainer
