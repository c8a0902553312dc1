#include "search/cost/split.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "search/cost/layer_ops.h"
#include "search/plan/model_stages.h"

namespace autocfg {
namespace {

// Returns the layers in one chunk of a rank. Shorter chunks come first: only the first chunks of the ranks
// contribute to fill and drain, (p-1) (f + b) in total (closed_form.h), so fewer layers there shorten both.
// All ranks put their longer chunks at the same end, so that the stages of a chunk, which run concurrently,
// are alike.
std::int64_t ChunkLayers(std::int64_t layers, std::int64_t chunks, std::int64_t chunk) {
  return layers / chunks + (chunk >= chunks - layers % chunks ? 1 : 0);
}

class Balancer {
 public:
  Balancer(const ModelSpec& model, const ParallelPlan& plan, const BlockCosts& parts, double host_op_s)
      : plan_(plan),
        parts_(parts),
        host_op_s_(host_op_s),
        layers_(model.layers),
        ranks_(plan.pp),
        chunks_(plan.virtual_stages) {
    parts_.arrival = {};  // so that the split is the same however messages are sent
    layer_s_ = parts.layer.Total();
    weights_s_ = parts.weights.Total();
    recompute_s_ = parts.recompute.Total();
    embedding_s_ = parts.embedding.Total() + parts.positions.Total();
    head_s_ = parts.head.Total();
    if (!std::isfinite(layer_s_ + weights_s_ + recompute_s_ + embedding_s_ + head_s_)) {
      layer_s_ = 1;
      weights_s_ = recompute_s_ = embedding_s_ = head_s_ = host_op_s_ = 0;
    }
  }

  // Returns the number of layers of each pipeline rank.
  std::vector<std::int64_t> RankLayers() const {
    const double bottleneck = LeastBottleneck();
    std::vector<std::int64_t> most(static_cast<std::size_t>(ranks_));
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      std::int64_t& n = most[static_cast<std::size_t>(rank)];
      if (rank > 1 && rank + 1 < ranks_) {
        n = most[1];  // middle ranks are alike
        continue;
      }
      for (n = chunks_; n < layers_ && Seconds(rank, n + 1) <= bottleneck; ++n) {
      }
    }
    // As even as the bottleneck allows: every rank up to one level, or to its own maximum. Remaining layers
    // go to the first ranks that can take one. A rank's time counts for every microbatch, and later ranks
    // have the fill on top of it.
    const auto up_to = [&](std::int64_t level) {
      std::int64_t sum = std::min(most.front(), level);
      if (ranks_ > 1) sum += std::min(most.back(), level);
      if (ranks_ > 2) sum += (ranks_ - 2) * std::min(most[1], level);
      return sum;
    };
    std::int64_t level = chunks_;
    while (up_to(level + 1) <= layers_ && level < layers_) ++level;
    std::int64_t left = layers_ - up_to(level);
    std::vector<std::int64_t> layers;
    for (const std::int64_t n : most) {
      const bool one_more = left > 0 && n > level;
      if (one_more) --left;
      layers.push_back(std::min(n, level) + (one_more ? 1 : 0));
    }
    return layers;
  }

 private:
  // Returns a rank's time per microbatch with `layers` layers; it grows with them. Results are compared with
  // each other, so all calls must round identically; std::fma ensures that.
  double Seconds(std::int64_t rank, std::int64_t layers) const {
    if (host_op_s_ > 0) return SecondsWithHost(rank, layers);
    double seconds = (rank == 0 ? embedding_s_ : 0) + (rank == ranks_ - 1 ? head_s_ : 0);
    seconds = std::fma(static_cast<double>(layers), layer_s_, seconds);
    if (recompute_s_ > 0) {
      // as in ChunkLayers: `longer` chunks have one layer more than the others
      const std::int64_t fewer = layers / chunks_, longer = layers % chunks_;
      const std::int64_t recomputing = (chunks_ - longer) * LayersWithRecomputeOps(plan_, fewer) +
                                       longer * LayersWithRecomputeOps(plan_, fewer + 1);
      seconds = std::fma(static_cast<double>(recomputing), recompute_s_, seconds);
    }
    if (weights_s_ > 0) {  // a rank has one chunk
      const auto delaying = static_cast<double>(LayersWithDelayedGradients(plan_, layers));
      seconds = std::fma(delaying, weights_s_, seconds);
    }
    return seconds;
  }

  // As above, if the host may take longer than the device.
  double SecondsWithHost(std::int64_t rank, std::int64_t layers) const {
    double seconds = 0;
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const std::int64_t of_chunk = ChunkLayers(layers, chunks_, chunk);
      const bool first = rank == 0 && chunk == 0, last = rank == ranks_ - 1 && chunk == chunks_ - 1;
      seconds += CostsOfStage(parts_, plan_, of_chunk, first, last, host_op_s_).Total();
    }
    return seconds;
  }

  // Returns the smallest possible maximum over the ranks. Greedily adds a layer to the ranks that stay least
  // busy with it, until all layers are assigned. This is optimal, since every rank's time grows with its
  // layers.
  double LeastBottleneck() const {
    // Three kinds of ranks: first, middle, last.
    struct Kind {
      std::int64_t rank;    // representative rank
      std::int64_t count;   // ranks of the kind
      std::int64_t layers;  // of each
      double next_s;        // with one layer more
    };
    std::vector<Kind> kinds;
    const auto add = [&](std::int64_t rank, std::int64_t count) {
      if (count > 0) kinds.push_back({rank, count, chunks_, Seconds(rank, chunks_ + 1)});
    };
    add(0, 1);
    add(1, ranks_ - 2);
    if (ranks_ > 1) add(ranks_ - 1, 1);
    double bottleneck = 0;
    for (const Kind& kind : kinds) bottleneck = std::max(bottleneck, Seconds(kind.rank, chunks_));
    for (std::int64_t left = layers_ - ranks_ * chunks_; left > 0;) {
      Kind& least = *std::min_element(kinds.begin(), kinds.end(),
                                      [](const Kind& a, const Kind& b) { return a.next_s < b.next_s; });
      bottleneck = std::max(bottleneck, least.next_s);
      left -= least.count;  // ranks of a kind are alike; some may get none of the last layers
      least.next_s = Seconds(least.rank, ++least.layers + 1);
    }
    return bottleneck;
  }

  const ParallelPlan& plan_;
  BlockCosts parts_;
  double host_op_s_;
  std::int64_t layers_, ranks_, chunks_;
  double layer_s_ = 0, weights_s_ = 0, recompute_s_ = 0, embedding_s_ = 0, head_s_ = 0;
};

// Returns true if full:K recomputes all layers, even of the largest stage, which has `most`.
bool AllLayersRecompute(const ParallelPlan& plan, std::int64_t most) {
  return plan.recompute == Recompute::kFull && plan.recompute_layers >= most;
}

}  // namespace

ParallelPlan ResolveSplit(CostModel& costs, const ParallelPlan& plan) {
  const ModelSpec& model = costs.model();
  if (plan.split != SplitMode::kAuto) {
    ParallelPlan resolved = plan;
    const std::int64_t most = plan.split == SplitMode::kEven
                                  ? model.layers / StageCount(plan)
                                  : *std::max_element(plan.split_layers.begin(), plan.split_layers.end());
    if (AllLayersRecompute(plan, most)) resolved.recompute_layers = 0;
    return resolved;
  }
  if (model.layers < StageCount(plan)) {
    throw std::logic_error(fmt::format("{} layers cannot be split over {} stages: the plan is not legal",
                                       model.layers, StageCount(plan)));
  }
  const std::vector<std::int64_t> of_rank =
      Balancer(model, plan, costs.BlocksOf(plan), costs.host_op_s()).RankLayers();
  ParallelPlan resolved = plan;
  resolved.split_layers.clear();
  for (std::int64_t stage = 0; stage < StageCount(plan); ++stage) {
    const std::int64_t rank_layers = of_rank[static_cast<std::size_t>(PipelineRankOf(plan, stage))];
    resolved.split_layers.push_back(ChunkLayers(rank_layers, plan.virtual_stages, ChunkOf(plan, stage)));
  }
  const auto [least, most] = std::minmax_element(resolved.split_layers.begin(), resolved.split_layers.end());
  if (AllLayersRecompute(resolved, *most)) resolved.recompute_layers = 0;
  resolved.split = SplitMode::kExplicit;
  if (*least == *most) {
    resolved.split = SplitMode::kEven;
    resolved.split_layers.clear();
  }
  return resolved;
}

}  // namespace autocfg
