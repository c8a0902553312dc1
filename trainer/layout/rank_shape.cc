#include "trainer/layout/rank_shape.h"

#include <algorithm>

#include "search/plan/rank_mesh.h"

namespace autocfg::trainer {

RankShape MakeRankShape(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                        std::int64_t rank) {
  const RankMesh mesh(plan);
  RankShape s;
  s.model = model;
  s.workload = workload;
  s.plan = plan;
  s.rank = rank;
  s.tensor = mesh.Coordinate(rank, Axis::kTensor);
  s.data = mesh.Coordinate(rank, Axis::kData);
  s.pipeline = mesh.Coordinate(rank, Axis::kPipeline);
  s.holds_embedding = s.pipeline == 0;
  s.holds_head = s.pipeline == mesh.size(Axis::kPipeline) - 1;
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    const std::int64_t stage = StageOf(plan, s.pipeline, chunk);
    const LayerRange layers = StageLayers(model, plan, stage);
    s.chunks.push_back(
        {stage, layers, RecomputedLayers(plan, layers.count), IsFirstStage(stage), IsLastStage(plan, stage)});
  }

  const std::int64_t tp = mesh.size(Axis::kTensor);
  s.micro_batch = plan.micro_batch;
  s.seq_len = workload.seq_len;
  s.tokens = s.micro_batch * s.seq_len;
  s.hidden = model.hidden;
  s.heads = model.heads / tp;
  s.kv_heads = model.kv_heads / tp;
  s.head_dim = model.head_dim;
  s.attention = s.heads * s.head_dim;
  s.qkv = (s.heads + 2 * s.kv_heads) * s.head_dim;
  s.ffn = model.ffn_hidden / tp;
  s.fc = IsGated(model.activation) ? 2 * s.ffn : s.ffn;
  s.vocab = PaddedVocab(model, tp) / tp;
  s.vocab_start = s.vocab * s.tensor;
  s.vocab_valid = std::clamp<std::int64_t>(model.vocab - s.vocab_start, 0, s.vocab);
  s.microbatches = MicrobatchCount(workload, plan);
  return s;
}

}  // namespace autocfg::trainer
