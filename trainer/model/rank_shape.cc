#include "trainer/model/rank_shape.h"

#include <algorithm>

#include "search/plan/rank_mesh.h"

namespace autocfg {

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
  s.stage = mesh.Coordinate(rank, Axis::kPipeline);
  s.first = s.stage == 0;
  s.last = s.stage == mesh.size(Axis::kPipeline) - 1;
  s.layers = StageLayers(model, plan, s.stage);

  const std::int64_t tp = mesh.size(Axis::kTensor);
  s.micro_batch = plan.micro_batch;
  s.seq_len = workload.seq_len;
  s.tokens = s.micro_batch * s.seq_len;
  s.hidden = model.hidden;
  s.heads = model.heads / tp;
  s.head_dim = model.head_dim;
  s.attention = s.heads * s.head_dim;
  s.ffn = model.ffn_hidden / tp;
  s.vocab = PaddedVocab(model, tp) / tp;
  s.vocab_start = s.vocab * s.tensor;
  s.vocab_valid = std::clamp<std::int64_t>(model.vocab - s.vocab_start, 0, s.vocab);
  s.microbatches = MicrobatchCount(workload, plan);
  return s;
}

}  // namespace autocfg
