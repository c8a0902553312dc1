#include "search/cost/split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "search/blocks/layer.h"
#include "search/plan/engine_stages/weighted_stages.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"

namespace autocfg {
namespace {

// The layers in each chunk of a rank. Shorter chunks come first: only the first chunks of the ranks
// contribute to fill and drain, (p-1) (f + b) in total (closed_form.h), so fewer layers there shorten both.
// All ranks put their longer chunks at the same end, so that the stages of a chunk, which run concurrently,
// are alike.
struct ChunkLayers {
  ChunkLayers(std::int64_t layers, std::int64_t chunks)
      : least(layers / chunks), longer(layers % chunks), shorter(chunks - longer) {}
  std::int64_t Of(std::int64_t chunk) const { return least + (chunk >= shorter ? 1 : 0); }

  std::int64_t least;            // layers of a shorter chunk; a longer one has one more
  std::int64_t longer, shorter;  // chunks
};

// Balances ranks of a model whose layers are of one kind.
class Balancer {
 public:
  // Refers to `plan` and `parts`.
  Balancer(const ModelSpec& model, const ParallelPlan& plan, const BlockCosts& parts, double host_op_s)
      : plan_(plan),
        parts_(parts),
        host_op_s_(host_op_s),
        layers_(model.layers),
        ranks_(plan.pp),
        chunks_(plan.virtual_stages),
        most_even_((layers_ + ranks_ - 1) / ranks_) {
    layer_s_ = parts.layers[0].layer.Total();
    weights_s_ = parts.weights.Total();
    recompute_s_ = parts.layers[0].recompute.Total();
    embedding_s_ = parts.embedding.Total() + parts.positions.Total();
    head_s_ = parts.head.Total();
    if (!std::isfinite(layer_s_ + weights_s_ + recompute_s_ + embedding_s_ + head_s_)) {
      layer_s_ = 1;
      weights_s_ = recompute_s_ = embedding_s_ = head_s_ = host_op_s_ = 0;
    }
  }

  // Sets the layers of each stage, none if all have as many.
  void Balance(std::vector<std::int64_t>& stages) const {
    stages.clear();
    const std::int64_t even = layers_ / ranks_;
    if (layers_ % (ranks_ * chunks_) == 0 && IsBestWith(even)) return;
    const double bottleneck = LeastBottleneck();
    // Middle ranks are alike.
    const std::int64_t first = MostLayers(0, bottleneck);
    const std::int64_t middle = ranks_ > 2 ? MostLayers(1, bottleneck) : first;
    const std::int64_t last = ranks_ > 1 ? MostLayers(ranks_ - 1, bottleneck) : first;
    // As even as the bottleneck allows: every rank up to one level, or to its own maximum. Remaining layers
    // go to the first ranks that can take one. A rank's time counts for every microbatch, and later ranks
    // have the fill on top of it.
    const auto up_to = [&](std::int64_t level) {
      std::int64_t sum = std::min(first, level);
      if (ranks_ > 1) sum += std::min(last, level);
      if (ranks_ > 2) sum += (ranks_ - 2) * std::min(middle, level);
      return sum;
    };
    std::int64_t level = chunks_;
    for (std::int64_t too_high = layers_ + 1; too_high - level > 1;) {
      const std::int64_t between = level + (too_high - level) / 2;
      (up_to(between) <= layers_ ? level : too_high) = between;
    }
    std::int64_t left = layers_ - up_to(level);
    stages.resize(static_cast<std::size_t>(ranks_ * chunks_));
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      const std::int64_t n = rank == 0 ? first : rank + 1 == ranks_ ? last : middle;
      const bool one_more = left > 0 && n > level;
      if (one_more) --left;
      const std::int64_t of_rank = std::min(n, level) + (one_more ? 1 : 0);
      const ChunkLayers layers(of_rank, chunks_);
      for (std::int64_t chunk = 0; chunk < chunks_; ++chunk)
        stages[static_cast<std::size_t>(StageOf(plan_, rank, chunk))] = layers.Of(chunk);
    }
    const auto [least, most] = std::minmax_element(stages.begin(), stages.end());
    if (*least == *most) stages.clear();
  }

 private:
  // Returns whether no split is better than `layers` on each rank: any other has a rank with more of them.
  bool IsBestWith(std::int64_t layers) const {
    double most_s = 0, least_more_s = std::numeric_limits<double>::infinity();
    for (const std::int64_t rank : {std::int64_t{0}, std::min<std::int64_t>(1, ranks_ - 1), ranks_ - 1}) {
      most_s = std::max(most_s, Seconds(rank, layers));
      least_more_s = std::min(least_more_s, Seconds(rank, layers + 1));
    }
    return most_s <= least_more_s;
  }

  // Returns the most layers with which the rank takes at most `seconds`; the least, one for each chunk, if it
  // takes longer with those.
  std::int64_t MostLayers(std::int64_t rank, double seconds) const {
    // A few steps from an even spread, of growing length, then between the last two.
    std::int64_t most = chunks_, too_many = layers_ + 1;
    if (Seconds(rank, most_even_) <= seconds) {
      most = most_even_;
      for (std::int64_t step = 1; most + step < too_many; step *= 2) {
        if (Seconds(rank, most + step) > seconds) {
          too_many = most + step;
        } else {
          most += step;
        }
      }
    } else {
      too_many = std::max(most_even_, chunks_ + 1);
      for (std::int64_t step = 1; too_many - step > most; step *= 2) {
        if (Seconds(rank, too_many - step) > seconds) {
          too_many -= step;
        } else {
          most = too_many - step;
        }
      }
    }
    while (too_many - most > 1) {
      const std::int64_t between = most + (too_many - most) / 2;
      (Seconds(rank, between) <= seconds ? most : too_many) = between;
    }
    return most;
  }

  // Returns a rank's time per microbatch with `layers` layers; it grows with them. Results are compared with
  // each other, so all calls must round identically; std::fma ensures that.
  double Seconds(std::int64_t rank, std::int64_t layers) const {
    if (host_op_s_ > 0) return SecondsWithHost(rank, layers);
    double seconds = (rank == 0 ? embedding_s_ : 0) + (rank == ranks_ - 1 ? head_s_ : 0);
    seconds = std::fma(static_cast<double>(layers), layer_s_, seconds);
    if (recompute_s_ > 0) {
      const ChunkLayers of_chunks(layers, chunks_);
      const std::int64_t recomputing = of_chunks.shorter * LayersWithRecomputeOps(plan_, of_chunks.least) +
                                       of_chunks.longer * LayersWithRecomputeOps(plan_, of_chunks.least + 1);
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
    const ChunkLayers of_chunks(layers, chunks_);
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const std::int64_t of_chunk = of_chunks.Of(chunk);
      const bool first = rank == 0 && chunk == 0, last = rank == ranks_ - 1 && chunk == chunks_ - 1;
      seconds += CostsOfStage(parts_, plan_, {.count = of_chunk}, first, last, host_op_s_).Total();
    }
    return seconds;
  }

  // Returns the smallest possible maximum over the ranks: greedily adds a layer to the ranks that stay least
  // busy with it, until all layers are assigned. This is optimal, since every rank's time grows with its
  // layers. Begins with all layers that are added before the first rank is as busy as one with its share of
  // an even spread, rounded up, since some rank gets that many.
  double LeastBottleneck() const {
    // Three kinds of ranks: first, middle, last.
    struct Kind {
      std::int64_t rank = 0;    // representative rank
      std::int64_t count = 0;   // ranks of the kind
      std::int64_t layers = 0;  // of each
      double next_s = 0;        // with one layer more
    };
    std::array<Kind, 3> all;
    std::size_t kinds = 0;
    const auto add = [&](std::int64_t rank, std::int64_t count) {
      if (count > 0) all[kinds++] = {.rank = rank, .count = count};
    };
    add(0, 1);
    add(1, ranks_ - 2);
    if (ranks_ > 1) add(ranks_ - 1, 1);
    const std::span<Kind> of_ranks(all.data(), kinds);
    double bottleneck = 0, even_s = std::numeric_limits<double>::infinity();
    for (const Kind& kind : of_ranks) {
      bottleneck = std::max(bottleneck, Seconds(kind.rank, chunks_));
      even_s = std::min(even_s, Seconds(kind.rank, most_even_));
    }
    if (layers_ == ranks_ * chunks_) return bottleneck;
    bottleneck = std::max(bottleneck, even_s);
    std::int64_t left = layers_;
    for (Kind& kind : of_ranks) {
      kind.layers = MostLayers(kind.rank, even_s);
      left -= kind.count * kind.layers;
      kind.next_s = Seconds(kind.rank, kind.layers + 1);
    }
    while (left > 0) {
      Kind& least = *std::min_element(of_ranks.begin(), of_ranks.end(),
                                      [](const Kind& a, const Kind& b) { return a.next_s < b.next_s; });
      bottleneck = std::max(bottleneck, least.next_s);
      left -= least.count;  // ranks of a kind are alike; some may get none of the last layers
      least.next_s = Seconds(least.rank, ++least.layers + 1);
    }
    return bottleneck;
  }

  const ParallelPlan& plan_;
  const BlockCosts& parts_;
  double host_op_s_;
  std::int64_t layers_, ranks_, chunks_;
  std::int64_t most_even_;  // layers of the largest rank of an even spread
  double layer_s_ = 0, weights_s_ = 0, recompute_s_ = 0, embedding_s_ = 0, head_s_ = 0;
};

// Balances stages of a model whose layers are of several kinds. A time is reached if stages can be filled up
// to it from the last one on, without layers that are left at the first one. Bisection finds the least such
// time. The stages are then as even as it allows.
class StageBalancer {
 public:
  // Refers to `plan` and `parts`.
  StageBalancer(const ModelSpec& model, const ParallelPlan& plan, const BlockCosts& parts, double host_op_s)
      : plan_(plan),
        parts_(parts),
        host_op_s_(host_op_s),
        layers_(model.layers),
        stages_(StageCount(plan)),
        layer_s_(1),
        recompute_s_(1),
        weights_s_(parts.weights.Total()),
        embedding_s_(parts.embedding.Total() + parts.positions.Total()),
        head_s_(parts.head.Total()),
        begins_(static_cast<std::size_t>(stages_) + 1) {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      layer_s_.push_back(layer_s_.back() + parts.Of(layer).layer.Total());
      recompute_s_.push_back(recompute_s_.back() + parts.Of(layer).recompute.Total());
    }
    if (std::isfinite(layer_s_.back() + recompute_s_.back() + weights_s_ + embedding_s_ + head_s_)) return;
    std::iota(layer_s_.begin(), layer_s_.end(), 0);
    std::ranges::fill(recompute_s_, 0);
    weights_s_ = embedding_s_ = head_s_ = host_op_s_ = 0;
  }

  // Sets the layers of each stage, none if all have as many.
  void Balance(std::vector<std::int64_t>& stages) {
    double even_s = 0;
    for (std::int64_t stage = 0; stage < stages_; ++stage)
      even_s = std::max(even_s, Seconds(stage, EvenBegin(stage), EvenBegin(stage + 1)));
    double most_s = even_s;
    for (double too_short_s = 0; most_s - too_short_s > kPrecision * most_s;) {
      const double between_s = (too_short_s + most_s) / 2;
      (Reaches(between_s) ? most_s : too_short_s) = between_s;
    }
    most_s *= 1 + kPrecision;
    stages.clear();
    if (even_s <= most_s && layers_ % stages_ == 0) return;
    Reaches(most_s);
    std::int64_t begin = 0;
    for (std::int64_t stage = 0; stage < stages_; ++stage) {
      std::int64_t end = std::max(begin + 1, begins_[static_cast<std::size_t>(stage) + 1]);
      while (end < EvenBegin(stage + 1) && Seconds(stage, begin, end + 1) <= most_s) ++end;
      stages.push_back(end - begin);
      begin = end;
    }
    if (AllEqual(stages)) stages.clear();
  }

 private:
  static constexpr double kPrecision = 1e-9;

  // Returns the first layer of a stage of an even spread.
  std::int64_t EvenBegin(std::int64_t stage) const { return layers_ * stage / stages_; }

  // Returns the seconds of a stage of the layers [begin, end).
  double Seconds(std::int64_t stage, std::int64_t begin, std::int64_t end) const {
    const bool first = IsFirstStage(stage), last = IsLastStage(plan_, stage);
    const std::int64_t layers = end - begin;
    if (host_op_s_ > 0) return CostsOfStage(parts_, plan_, {begin, layers}, first, last, host_op_s_).Total();
    const auto sum = [](const std::vector<double>& sums, std::int64_t from, std::int64_t to) {
      return sums[static_cast<std::size_t>(to)] - sums[static_cast<std::size_t>(from)];
    };
    return (first ? embedding_s_ : 0) + (last ? head_s_ : 0) + sum(layer_s_, begin, end) +
           sum(recompute_s_, begin, begin + LayersWithRecomputeOps(plan_, layers)) +
           static_cast<double>(LayersWithDelayedGradients(plan_, layers)) * weights_s_;
  }

  // Sets begins_: the earliest first layer of each stage with which it and those after it take at most
  // `seconds` each. Returns whether the first stage may begin with the first layer. Each stage keeps a layer.
  bool Reaches(double seconds) {
    begins_.back() = layers_;
    for (std::int64_t stage = stages_ - 1; stage >= 0; --stage) {
      const std::int64_t end = begins_[static_cast<std::size_t>(stage) + 1];
      std::int64_t begin = end - 1;
      if (Seconds(stage, begin, end) > seconds) return false;
      while (begin > stage && Seconds(stage, begin - 1, end) <= seconds) --begin;
      begins_[static_cast<std::size_t>(stage)] = begin;
    }
    return begins_.front() == 0;
  }

  const ParallelPlan& plan_;
  const BlockCosts& parts_;
  double host_op_s_;
  std::int64_t layers_, stages_;
  std::vector<double> layer_s_, recompute_s_;  // of all layers before each one
  double weights_s_, embedding_s_, head_s_;
  std::vector<std::int64_t> begins_;  // of each stage, and the end of the last one
};

// Returns true if full:K recomputes all layers, even of the largest stage, which has `most`.
bool AllLayersRecompute(const ParallelPlan& plan, std::int64_t most) {
  return plan.recompute == Recompute::kFull && plan.recompute_layers >= most;
}

}  // namespace

ParallelPlan ResolveSplit(CostModel& costs, const ParallelPlan& plan) {
  ParallelPlan resolved = plan;
  const bool by_engine =
      costs.cluster().engine.splits_by_weight && SplitsDepth(plan) && plan.split == SplitMode::kEven;
  if (plan.split == SplitMode::kAuto || by_engine) {
    static_cast<StageOptions&>(resolved) = BalancedStages(costs, plan);
    return resolved;
  }
  const std::int64_t most = plan.split == SplitMode::kEven
                                ? costs.model().layers / StageCount(plan)
                                : *std::max_element(plan.split_layers.begin(), plan.split_layers.end());
  if (AllLayersRecompute(plan, most)) resolved.recompute_layers = 0;
  return resolved;
}

ParallelPlan ResolveToFaster(CostModel& costs, const ParallelPlan& plan,
                             const std::function<Prediction(const ParallelPlan&)>& predict) {
  ParallelPlan resolved = ResolveSplit(costs, plan);
  ParallelPlan even = plan;
  even.split = SplitMode::kEven;
  if (plan.split != SplitMode::kAuto || resolved.split == SplitMode::kEven ||
      costs.cluster().engine.splits_by_weight || FindIllegality(costs.problem().With(even), RankCount(plan)))
    return resolved;
  even = ResolveSplit(costs, even);
  const Prediction of_even = predict(even), of_balanced = predict(resolved);
  if (of_even.feasible != of_balanced.feasible) return of_even.feasible ? even : resolved;
  return of_even.step_time_s < of_balanced.step_time_s ? even : resolved;
}

StageOptions BalancedStages(CostModel& costs, const ParallelPlan& plan) {
  const std::int64_t layers = costs.model().layers, stages = StageCount(plan);
  if (layers < stages) {
    throw std::logic_error(
        fmt::format("{} layers cannot be split over {} stages: the plan is not legal", layers, stages));
  }
  StageOptions balanced = plan.stage();
  if (costs.cluster().engine.splits_by_weight) {
    balanced.split_layers = WithALayerEach(StagesByWeight(costs.model(), stages));
    if (AllEqual(balanced.split_layers)) balanced.split_layers.clear();
  } else if (const BlockCosts& parts = costs.BlocksOf(plan); parts.kinds) {
    StageBalancer(costs.model(), plan, parts, costs.host_op_s()).Balance(balanced.split_layers);
  } else {
    Balancer(costs.model(), plan, parts, costs.host_op_s()).Balance(balanced.split_layers);
  }
  const bool even = balanced.split_layers.empty();
  const std::int64_t most =
      even ? layers / stages : *std::max_element(balanced.split_layers.begin(), balanced.split_layers.end());
  if (AllLayersRecompute(plan, most)) balanced.recompute_layers = 0;
  balanced.split = even ? SplitMode::kEven : SplitMode::kExplicit;
  return balanced;
}

}  // namespace autocfg
