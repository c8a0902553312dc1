#include "search/planner/plans/resolved_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/hash/hash.h"
#include "search/cost/engine_costs.h"
#include "search/cost/split.h"
#include "search/plan/model_stages.h"

namespace autocfg {

std::uint32_t Kibibytes(std::int64_t bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>((bytes + 1023) / 1024, std::numeric_limits<std::uint32_t>::max()));
}

ResolvedRun::ResolvedRun(const SearchSpace& space, CostModel& costs)
    : space_(space), costs_(costs), engine_needs_memory_(NeedsMemory(costs.cluster().engine)) {}

// Hash the options that differ most often; equality compares all of them.
std::size_t ResolvedRun::KeyHash::operator()(const LayerKey& key) const {
  return absl::HashOf(key.layer.attention, key.layer.sequence_parallel, key.layer.tp_overlap,
                      key.scatter_gather);
}
std::size_t ResolvedRun::KeyHash::operator()(const StatesKey& key) const {
  const auto& [states, messages, sequence_parallel] = key;
  return absl::HashOf(states.zero_stage, states.dp_shard, states.grad_overlap, states.param_overlap,
                      messages.p2p_overlap, messages.scatter_gather, sequence_parallel);
}

void ResolvedRun::Set(const ParallelPlan& run, std::span<const SearchSpace::RecomputeValue> values) {
  values_ = values;
  plan_ = run;
  for (std::vector<EvenBytes>& bytes : even_bytes_) bytes.clear();
  if (const StageOptions layout{.virtual_stages = run.virtual_stages, .schedule = run.schedule};
      run.mesh() != mesh_ || run.micro_batch != micro_batch_ || layout != layout_) {
    mesh_ = run.mesh();
    micro_batch_ = run.micro_batch;
    layout_ = layout;
    auto_runs_.clear();
    memories_.clear();
    fixed_of_.clear();
    for (std::vector<RankLoad>& loads : even_) loads.clear();
  }
  LayerKey key{run.layer(), run.scatter_gather};
  key.layer.recompute = Recompute::kNone;
  memory_ = &memories_[key];
  fixed_ = &fixed_of_[{run.states(), run.messages(), run.sequence_parallel}];
  auto_ = nullptr;
  if (run.split != SplitMode::kAuto) return;
  key.scatter_gather = false;
  auto_ = &auto_runs_[key];
  if (std::equal(values.begin(), values.end(), auto_->values.begin(), auto_->values.end())) return;
  auto_->values.assign(values.begin(), values.end());
  auto_->splits.assign(values.size(), {});
  auto_->least_that_fits = 0;
}

ResolvedRun::AutoSplit& ResolvedRun::SplitOf(std::size_t i) {
  AutoSplit& split = auto_->splits[i];
  if (split.made) return split;
  split.made = true;
  plan_.recompute = values_[i].mode;
  plan_.recompute_layers = values_[i].layers;
  resolved_ = plan_;
  static_cast<StageOptions&>(resolved_) = split.stage = BalancedStages(costs_, plan_);
  split.held = space_.HoldsSplit(resolved_);
  return split;
}

std::size_t ResolvedRun::LeastThatFits(std::int64_t arena_bytes, std::size_t from,
                                       std::optional<std::size_t> hint) {
  const auto fits = [&](std::size_t i) { return Arena(i) <= arena_bytes; };
  const std::size_t last = values_.size() - 1;
  if (auto_ != nullptr && IsTooLarge(arena_bytes)) return last;
  if (from >= last || fits(from)) return from;
  if (auto_ == nullptr) {
    // From the first full:K on, each layer changes the memory by as much.
    if (from == 0 && fits(1)) return 1;
    if (!fits(last)) return last;
    std::size_t least = last;
    for (std::size_t too_little = std::max<std::size_t>(from, 1); least - too_little > 1;) {
      const std::size_t middle = too_little + (least - too_little) / 2;
      (fits(middle) ? least : too_little) = middle;
    }
    return least;
  }
  std::size_t& least = auto_->least_that_fits;
  least = std::clamp(hint.value_or(least), from + 1, last);
  while (least < last && !fits(least)) ++least;
  while (least > from + 1 && fits(least - 1)) --least;
  return least;
}

bool ResolvedRun::IsTooLarge(std::int64_t arena_bytes) {
  if (engine_needs_memory_) return false;
  // Some rank has at least as many layers as an even spread gives it, rounded up. It keeps the least with one
  // microbatch in flight under the value that recomputes most: each layer that recomputes less keeps the
  // tensors that the workspace of others holds.
  const SearchSpace::RecomputeValue& deepest = values_.back();
  const PlanMemory& memory = MemoryOf(deepest.mode);
  const std::int64_t stages = plan_.virtual_stages,
                     layers = (costs_.model().layers + plan_.pp - 1) / plan_.pp;
  RankLoad load{.place = {},
                .layers = layers,
                .hidden = layers - stages,
                .kept = deepest.mode == Recompute::kFull ? 0 : layers,
                .messages = stages - 1,
                .in_flight = stages};
  const auto is_too_large = [&](RankPlace place) {
    load.place = place;
    return FixedBytes(load) + memory.OpWorkspace() + memory.Activations(load) > arena_bytes;
  };
  return is_too_large({.first = true}) && is_too_large({.last = true}) && (plan_.pp == 2 || is_too_large({}));
}

const ParallelPlan& ResolvedRun::At(std::size_t i) {
  plan_.recompute = values_[i].mode;
  plan_.recompute_layers = values_[i].layers;
  if (auto_ == nullptr) {
    resolved_ = ResolveSplit(costs_, plan_);
  } else {
    resolved_ = plan_;
    static_cast<StageOptions&>(resolved_) = SplitOf(i).stage;
  }
  return resolved_;
}

std::int64_t ResolvedRun::Arena(std::size_t i) {
  if (engine_needs_memory_) return costs_.ArenaOf(At(i)).Arena();
  const SearchSpace::RecomputeValue& value = values_[i];
  const PlanMemory& memory = MemoryOf(value.mode);
  const std::size_t overlaps = OverlapsMessages(plan_) ? 1 : 0;
  const ModelSpec& model = costs_.model();
  std::int64_t worst = 0;
  const auto consider = [&](const RankLoad& load, std::int64_t activations) {
    worst = std::max(worst, FixedBytes(load) + memory.OpWorkspace() + activations);
  };
  if (plan_.split == SplitMode::kEven) {
    std::vector<EvenBytes>& ranks = even_bytes_[static_cast<std::size_t>(value.mode)];
    if (ranks.empty()) {
      std::vector<RankLoad>& loads = even_[overlaps];
      plan_.recompute = Recompute::kNone;
      if (loads.empty()) loads = LargestLoads(costs_.problem().With(plan_));
      for (const RankLoad& load : loads) {
        ranks.push_back({FixedBytes(load) + memory.OpWorkspace() + memory.Activations(load),
                         load.in_flight * memory.RecomputedLayer()});
      }
    }
    plan_.recompute = value.mode;
    plan_.recompute_layers = value.layers;
    const std::int64_t recomputed = FullyRecomputedLayers(plan_, model.layers / StageCount(plan_));
    for (const EvenBytes& rank : ranks) worst = std::max(worst, rank.all - recomputed * rank.saved);
    return worst;
  }
  std::vector<RankLoad> made;
  std::vector<RankLoad>& loads = auto_ == nullptr ? made : auto_->splits[i].loads[overlaps];
  if (loads.empty()) loads = LargestLoads(costs_.problem().With(At(i)));
  for (const RankLoad& load : loads) consider(load, memory.Activations(load));
  return worst;
}

const PlanMemory& ResolvedRun::MemoryOf(Recompute mode) {
  std::optional<PlanMemory>& memory = (*memory_)[static_cast<std::size_t>(mode)];
  if (!memory) {
    plan_.recompute = mode;
    memory.emplace(costs_.problem().With(plan_));
  }
  return *memory;
}

std::int64_t ResolvedRun::FixedBytes(const RankLoad& load) {
  for (const Fixed& known : *fixed_) {
    if (known.place.first == load.place.first && known.place.last == load.place.last &&
        known.layers == load.layers) {
      return known.bytes;
    }
  }
  const auto made = [](const std::optional<PlanMemory>& memory) { return memory.has_value(); };
  const PlanMemory& memory = **std::find_if(memory_->begin(), memory_->end(), made);
  const std::int64_t bytes = memory.Of(load).Arena() - memory.Activations(load) - memory.OpWorkspace();
  fixed_->push_back({load.place, load.layers, bytes});
  return bytes;
}

}  // namespace autocfg
