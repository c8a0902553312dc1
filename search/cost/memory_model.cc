#include "search/cost/memory_model.h"

#include <algorithm>

#include "search/cost/stage_shapes.h"
#include "search/plan/legality.h"

namespace autocfg {
namespace {

constexpr std::int64_t kStagingBytes = std::int64_t{1} << 20;

// Microbatches whose activations a stage keeps at once: what MaxInFlight counts in the generator's order, in
// closed form.
std::int64_t InFlight(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t pipeline_rank) {
  if (plan.schedule == Schedule::kGPipe) return microbatches;
  return std::min(microbatches, plan.pp - pipeline_rank);
}

// What attention needs beside its operands, in elements of the statistics type: two blocks of scores of at
// most 128 rows, and a row vector.
std::int64_t AttentionWorkspace(std::int64_t seq) { return 2 * std::min<std::int64_t>(seq, 128) * seq + seq; }

}  // namespace

MemoryBytes RankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                       std::int64_t pipeline_rank) {
  const StepShapes s = ShapesOf(model, workload, plan);
  const Precision& types = workload.precision;
  const std::int64_t e = SizeOf(types.compute), st = SizeOf(types.statistics);
  const bool first = pipeline_rank == 0, last = pipeline_rank == plan.pp - 1, piped = plan.pp > 1;
  const std::int64_t layers = StageLayers(model, plan, pipeline_rank).count;
  const auto rows = [&](std::int64_t width) { return PaddedBytes(s.tokens * width * e); };
  const std::int64_t per_token = PaddedBytes(s.tokens * st);  // one statistic per token
  const std::int64_t ids = PaddedBytes(s.tokens * SizeOf(DType::kI32));
  const std::int64_t hidden = rows(s.hidden);

  MemoryBytes bytes;
  bytes.parameters = ParameterRegionBytes(s, model, first, last, layers, types.parameters);
  bytes.gradients = ParameterRegionBytes(s, model, first, last, layers, types.gradients);
  bytes.optimizer = 2 * ParameterRegionBytes(s, model, first, last, layers, types.optimizer);

  // One layer's tensors from [mean1] to [gelu]: all of them but the layer's input.
  const std::int64_t inner = 4 * per_token + 3 * hidden + rows(3 * s.attention) +
                             PaddedBytes(s.batch * s.heads * s.seq * st) + rows(s.attention) +
                             2 * rows(s.ffn);
  const bool recompute = plan.recompute == Recompute::kFull;
  std::int64_t slot = layers * (hidden + (recompute ? 0 : inner));
  if (first) slot += ids;
  if (last)
    slot += 2 * hidden + 2 * per_token + rows(s.vocab) + per_token + PaddedBytes(2 * s.tokens * st) + ids;
  bytes.activations = slot * InFlight(plan, MicrobatchCount(workload, plan), pipeline_rank);

  bytes.workspace = hidden + rows(3 * s.attention) + rows(s.attention) + rows(s.ffn) +
                    PaddedBytes(AttentionWorkspace(s.seq) * st) + PaddedBytes(2 * SizeOf(DType::kF64));
  if (!piped) bytes.workspace += hidden;
  if (recompute) bytes.workspace += inner;

  if (piped) bytes.communication += (last ? 2 : 4) * hidden;
  const bool embedding_group = piped && model.tied_embeddings && (first || last);
  bytes.communication +=
      kStagingBytes * ((plan.tp > 1) + (plan.dp > 1) + embedding_group + (RankCount(plan) > 1));
  return bytes;
}

MemoryBytes WorstRankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  MemoryBytes worst = RankMemory(model, workload, plan, 0);
  const auto consider = [&](std::int64_t rank) {
    const MemoryBytes bytes = RankMemory(model, workload, plan, rank);
    if (bytes.Arena() > worst.Arena()) worst = bytes;
  };
  if (plan.split == SplitMode::kExplicit) {
    for (std::int64_t rank = 1; rank < plan.pp; ++rank) consider(rank);
  } else {
    // Stages between the first and the last are equal but for what is in flight, which falls with the stage.
    if (plan.pp > 2) consider(1);
    if (plan.pp > 1) consider(plan.pp - 1);
  }
  return worst;
}

}  // namespace autocfg
