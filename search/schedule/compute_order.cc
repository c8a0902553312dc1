#include "search/schedule/compute_order.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/generators.h"

namespace autocfg {
namespace {

ComputeLoops GenerateLoops(const PipelineShape& shape, std::int64_t pipeline_rank) {
  const auto rank = static_cast<std::int32_t>(pipeline_rank);
  const auto ranks = static_cast<std::int32_t>(shape.ranks);
  const auto has_one_stage = [&] {
    if (shape.virtual_stages != 1) throw std::logic_error("several stages on a rank without interleaved");
  };
  switch (shape.schedule) {
    case Schedule::kGPipe: has_one_stage(); return GPipeOrder(rank, ranks, shape.microbatches);
    case Schedule::kOneFOneB: has_one_stage(); return OneFOneBOrder(rank, ranks, shape.microbatches);
    case Schedule::kInterleaved:
      if (shape.ranks < 2 || shape.virtual_stages < 2 || shape.microbatches % shape.ranks != 0) {
        throw std::logic_error(
            "interleaved requires several ranks, several stages on each, and a multiple of pp microbatches");
      }
      return InterleavedOrder(rank, ranks, static_cast<std::int32_t>(shape.virtual_stages),
                              shape.microbatches);
    case Schedule::kZeroBubbleH1:
      has_one_stage();
      if (shape.ranks == 1) return OneFOneBOrder(rank, ranks, shape.microbatches);  // SplitsBackward
      return ZeroBubbleH1Order(rank, ranks, shape.microbatches);
  }
  throw std::logic_error("a schedule without a generator");
}

// Marks the backwards, or their parts, that write gradients. Splits the first round off each loop that has
// one; every stage of a loop occurs in its first round.
ComputeLoops WithFirstBackwards(ComputeLoops loops) {
  ComputeLoops result;
  std::vector<std::pair<ActionKind, std::int32_t>> written;  // kinds and stages
  for (ComputeLoop& loop : loops) {
    ComputeLoop first = loop;
    first.count = std::min(loop.count, static_cast<std::int64_t>(loop.computes.size()));
    first.computes.resize(static_cast<std::size_t>(first.count));
    bool writes = false;
    for (StageCompute& compute : first.computes) {
      if (!WritesGradients(compute.kind, 0)) continue;
      const std::pair key(compute.kind, compute.stage);
      if (std::find(written.begin(), written.end(), key) != written.end()) continue;
      written.push_back(key);
      compute.writes_gradients = writes = true;
    }
    if (writes) {
      loop.count -= first.count;
      result.push_back(std::move(first));
    }
    result.push_back(std::move(loop));
  }
  return result;
}

}  // namespace

ComputeLoops MakeComputeLoops(const PipelineShape& shape, std::int64_t pipeline_rank) {
  return WithFirstBackwards(GenerateLoops(shape, pipeline_rank));
}

ComputeOrder Unroll(const ComputeLoops& loops) {
  std::int64_t size = 0;
  for (const ComputeLoop& loop : loops) size += loop.count;
  ComputeOrder order;
  order.reserve(static_cast<std::size_t>(size));
  absl::flat_hash_map<std::pair<ActionKind, std::int32_t>, std::int32_t> done;  // so far, by kind and stage
  for (const ComputeLoop& loop : loops) {
    for (std::int64_t i = 0; i < loop.count; ++i) {
      const StageCompute& compute = loop.computes[static_cast<std::size_t>(i) % loop.computes.size()];
      if (!IsStageCompute(compute.kind))
        throw std::logic_error(fmt::format("a generator made a {}", Name(compute.kind)));
      order.push_back({.kind = compute.kind,
                       .lane = Lane::kCompute,
                       .stage = compute.stage,
                       .microbatch = done[{compute.kind, compute.stage}]++});
    }
  }
  return order;
}

ComputeOrder MakeComputeOrder(const ParallelPlan& plan, int pipeline_rank, int microbatches) {
  const PipelineShape shape(plan, microbatches, /*ties_embeddings=*/false);
  return Unroll(MakeComputeLoops(shape, pipeline_rank));
}

int MaxInFlight(const ComputeOrder& order, int stage) {
  int now = 0;
  int most = 0;
  for (const Action& action : order) {
    if (action.stage != stage) continue;
    if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (FreesSlot(action.kind)) --now;
  }
  return most;
}

}  // namespace autocfg
