#include "search/planner/plans/resolved_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "search/cost/split.h"
#include "search/plan/model_stages.h"

namespace autocfg {

std::uint32_t Kibibytes(std::int64_t bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>((bytes + 1023) / 1024, std::numeric_limits<std::uint32_t>::max()));
}

ResolvedRun::ResolvedRun(const SearchSpace& space, CostModel& costs) : space_(space), costs_(costs) {}

void ResolvedRun::AutoSplit::Clear() {
  for (std::vector<RankLoad>& of_ranks : loads) of_ranks.clear();
  for (auto& by_scattering : ranks) {
    for (std::vector<RankBytes>& bytes : by_scattering) bytes.clear();
  }
}

void ResolvedRun::LayerGroup::Mode::Clear() {
  memory.reset();
  even.clear();
}

void ResolvedRun::LayerGroup::Clear() {
  parts.clear();
  for (auto& by_scattering : modes) {
    for (Reused<Mode>& known : by_scattering) known.Clear();
  }
  mode_of = {};
  splits.Clear();
  for (std::vector<AutoSplit*>& by_layers : by_depth) by_layers.clear();
  least_that_fits = 0;
}

void ResolvedRun::StatesGroup::Clear() {
  for (auto& by_scattering : fixed) {
    for (auto& by_place : by_scattering) {
      for (std::vector<std::int64_t>& bytes : by_place) bytes.clear();
    }
  }
}

void ResolvedRun::Set(const ParallelPlan& run, Values values, Values parts) {
  values_ = values;
  parts_ = parts;
  const bool same_mesh = run.mesh() == plan_.mesh();
  const bool same_layout = same_mesh && run.micro_batch == plan_.micro_batch &&
                           run.schedule == plan_.schedule && run.virtual_stages == plan_.virtual_stages;
  if (!same_mesh) units_.clear();
  if (!same_layout) {
    // The memory of long splits is returned.
    constexpr std::int64_t kMostKeptStages = 256;
    if (StageCount(plan_) > kMostKeptStages) layers_ = {};
    layers_.Clear();
    all_states_.Clear();
    for (std::vector<RankLoad>& loads : even_) loads.clear();
    for (std::vector<std::int64_t>& in_flight : in_flight_) in_flight.clear();
  }
  LayerOptions layer = run.layer();
  layer.recompute = Recompute::kNone;
  layer.recompute_parts = LayerOptions().recompute_parts;
  if (!same_layout || layer != layer_->layer) {
    layer_ = layers_.Find([&](const LayerGroup& known) { return known.layer == layer; });
    if (layer_ == nullptr) {
      layer_ = &layers_.Add();
      layer_->layer = layer;
    }
  }
  const auto has_states = [&](const StatesGroup& known) {
    return known.states == run.states() && known.sequence_parallel == run.sequence_parallel;
  };
  if (!same_layout || !has_states(*states_)) {
    states_ = all_states_.Find(has_states);
    if (states_ == nullptr) {
      states_ = &all_states_.Add();
      states_->states = run.states();
      states_->sequence_parallel = run.sequence_parallel;
    }
  }
  plan_ = run;
  auto_ = run.split == SplitMode::kAuto;
}

ResolvedRun::AutoSplit& ResolvedRun::MakeSplit(const SearchSpace::RecomputeValue& value) {
  std::vector<AutoSplit*>& known = layer_->by_depth[static_cast<std::size_t>(value.mode)];
  const std::size_t at = DepthIndex(value);
  if (known.size() <= at) known.resize(at + 1);
  AutoSplit& split = layer_->splits.Add();
  known[at] = &split;
  value.SetIn(plan_);
  resolved_ = plan_;
  static_cast<StageOptions&>(resolved_) = split.stage = BalancedStages(costs_, plan_);
  split.held = space_.HoldsSplit(resolved_);
  return split;
}

ResolvedRun::Sized ResolvedRun::LeastThatFits(std::int64_t arena_bytes, std::size_t from,
                                              std::optional<std::size_t> hint) {
  const auto at = [&](std::size_t i) { return Sized{i, Arena(i)}; };
  const auto fits = [&](const Sized& plan) { return plan.bytes <= arena_bytes; };
  const std::size_t last = values_.size() - 1;
  if (auto_ && IsTooLarge(arena_bytes)) return at(last);
  if (const Sized first = at(from); from >= last || fits(first)) return first;
  if (!auto_) {
    // From the first full:K on, each layer changes the memory by as much.
    if (from == 0) {
      if (const Sized second = at(1); fits(second)) return second;
    }
    Sized least = at(last);
    if (!fits(least)) return least;
    for (std::size_t too_little = std::max<std::size_t>(from, 1); least.index - too_little > 1;) {
      const Sized middle = at(too_little + (least.index - too_little) / 2);
      if (fits(middle)) {
        least = middle;
      } else {
        too_little = middle.index;
      }
    }
    return least;
  }
  Sized least = at(std::clamp(hint.value_or(layer_->least_that_fits), from + 1, last));
  while (least.index < last && !fits(least)) least = at(least.index + 1);
  while (least.index > from + 1) {
    const Sized before = at(least.index - 1);
    if (!fits(before)) break;
    least = before;
  }
  layer_->least_that_fits = least.index;
  return least;
}

double ResolvedRun::AddedSeconds(const SearchSpace::RecomputeValue& value) {
  value.SetIn(plan_);
  const BlockCosts& blocks = costs_.BlocksOf(plan_);
  double seconds = 0;
  ForEachRun(blocks, {.count = costs_.model().layers},
             [&](const LayerCosts& layer, double times) { seconds += times * layer.recompute.backward_s; });
  return std::isfinite(seconds) ? seconds : 0;
}

void ResolvedRun::KnowParts() {
  LayerGroup& known = *layer_;
  if (std::ranges::equal(parts_, known.parts)) return;
  known.parts.assign(parts_.begin(), parts_.end());
  known.parts_s.clear();
  known.largest_parts.reset();
  for (std::size_t place = 0; place < parts_.size(); ++place) {
    known.parts_s.push_back(AddedSeconds(parts_[place]));
    const auto is_held = [&](const auto& other) { return parts_[place].parts.Covers(other.parts); };
    if (std::ranges::all_of(parts_, is_held)) known.largest_parts = place;
  }
  known.full_s = AddedSeconds({.mode = Recompute::kFull});
  known.alike = costs_.BlocksOf(plan_).kinds == nullptr;
  known.parts_by_time.resize(parts_.size());
  std::iota(known.parts_by_time.begin(), known.parts_by_time.end(), std::size_t{0});
  std::ranges::stable_sort(known.parts_by_time,
                           [&](std::size_t a, std::size_t b) { return known.parts_s[a] < known.parts_s[b]; });
}

std::optional<ResolvedRun::Sized> ResolvedRun::FastestPartsThatFit(std::int64_t arena_bytes, bool delays) {
  if (parts_.empty()) return std::nullopt;
  KnowParts();
  const bool splits = SplitsBackward(plan_);
  const auto sized = [&](std::size_t place) {
    return Sized{values_.size() + place, Arena(values_.size() + place)};
  };
  // The set that holds all others takes the least memory.
  if (layer_->largest_parts && sized(*layer_->largest_parts).bytes > arena_bytes) return std::nullopt;
  for (const std::size_t place : layer_->parts_by_time) {
    parts_[place].SetIn(plan_);
    if (splits && RecomputesInputs(plan_) == delays) continue;
    if (const Sized plan = sized(place); plan.bytes <= arena_bytes) return plan;
  }
  return std::nullopt;
}

bool ResolvedRun::IsFaster(std::size_t parts, std::size_t depth) {
  if (!layer_->alike || SplitsBackward(plan_) || values_[depth].mode != Recompute::kFull) return false;
  const auto most_layers = [&](std::size_t i) {
    const ParallelPlan& plan = At(i);
    return plan.split == SplitMode::kExplicit ? std::ranges::max(plan.split_layers)
                                              : costs_.model().layers / StageCount(plan);
  };
  const std::int64_t layers = std::max(most_layers(parts), most_layers(depth));
  const double parts_s = layer_->parts_s[parts - values_.size()], full_s = layer_->full_s;
  values_[depth].SetIn(plan_);
  return parts_s <= full_s && parts_s * static_cast<double>(layers) <=
                                  full_s * static_cast<double>(FullyRecomputedLayers(plan_, layers));
}

bool ResolvedRun::IsTooLarge(std::int64_t arena_bytes) {
  // Some rank has at least as many layers as an even spread gives it, rounded up. It keeps the least with one
  // microbatch in flight under the value that recomputes most: each layer that recomputes less keeps the
  // tensors that the workspace of others holds.
  const SearchSpace::RecomputeValue& deepest = values_.back();
  const PlanMemory& memory = MemoryOf(deepest);
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
    return FixedBytes(place, layers) + memory.OpWorkspace() + memory.Activations(load) > arena_bytes;
  };
  return is_too_large({.first = true}) && is_too_large({.last = true}) && (plan_.pp == 2 || is_too_large({}));
}

const ParallelPlan& ResolvedRun::At(std::size_t i) {
  ValueAt(i).SetIn(plan_);
  if (!auto_) return resolved_ = ResolveSplit(costs_, plan_);
  resolved_ = plan_;
  static_cast<StageOptions&>(resolved_) = SplitOf(i).stage;
  return resolved_;
}

std::int64_t ResolvedRun::Arena(std::size_t i) {
  const SearchSpace::RecomputeValue& value = ValueAt(i);
  const std::size_t overlaps = OverlapsMessages(plan_) ? 1 : 0;
  const auto worst_of = [this](const std::vector<RankBytes>& ranks, std::int64_t recomputed) {
    std::int64_t worst = 0;
    for (const RankBytes& rank : ranks)
      worst = std::max(worst, FixedBytes(rank.place, rank.layers) + rank.bytes - recomputed * rank.saved);
    return worst;
  };
  if (auto_) {
    AutoSplit& split = SplitOf(i);
    std::vector<RankBytes>& ranks = Of(split.ranks);
    if (ranks.empty()) {
      if (split.loads[overlaps].empty()) split.loads[overlaps] = LoadsOf(At(i));
      AddRanks(split.loads[overlaps], MemoryOf(value), ranks);
    }
    return worst_of(ranks, 0);
  }
  if (plan_.split != SplitMode::kEven) {
    std::vector<RankBytes> ranks;
    AddRanks(LoadsOf(At(i)), MemoryOf(value), ranks);
    return worst_of(ranks, 0);
  }
  std::vector<RankBytes>& even = ModeOf(value).even;
  if (even.empty()) {
    if (even_[overlaps].empty()) {
      plan_.recompute = Recompute::kNone;
      even_[overlaps] = LoadsOf(plan_);
    }
    AddRanks(even_[overlaps], MemoryOf(value), even);
  }
  value.SetIn(plan_);
  return worst_of(even, FullyRecomputedLayers(plan_, costs_.model().layers / StageCount(plan_)));
}

void ResolvedRun::AddRanks(const std::vector<RankLoad>& loads, const PlanMemory& memory,
                           std::vector<RankBytes>& ranks) const {
  for (const RankLoad& load : loads) {
    ranks.push_back({load.place, load.layers, memory.OpWorkspace() + memory.Activations(load),
                     load.in_flight * memory.RecomputedLayer()});
  }
}

std::vector<RankLoad> ResolvedRun::LoadsOf(const ParallelPlan& plan) {
  return LargestLoads(costs_.problem().With(plan), costs_.cluster().engine,
                      in_flight_[OverlapsMessages(plan) ? 1 : 0]);
}

const PlanMemory& ResolvedRun::MemoryOf(const SearchSpace::RecomputeValue& value) {
  std::optional<PlanMemory>& memory = ModeOf(value).memory;
  if (!memory) {
    value.SetIn(plan_);
    memory.emplace(costs_.problem().With(plan_), costs_.cluster().engine);
  }
  return *memory;
}

std::int64_t ResolvedRun::MakeFixedBytes(RankPlace place, std::int64_t layers) {
  std::vector<std::int64_t>& by_layers = Of(states_->fixed)[(place.first ? 1U : 0U) + (place.last ? 2U : 0U)];
  const auto at = static_cast<std::size_t>(layers);
  if (by_layers.size() <= at) by_layers.resize(at + 1, kUnknown);
  const PlanMemory& memory =
      *Of(layer_->modes).Find([](const LayerGroup::Mode& mode) { return mode.memory.has_value(); })->memory;
  const std::int64_t shards = StateShards(plan_);
  auto units = std::find_if(units_.begin(), units_.end(), [&](const KnownUnits& known) {
    return known.shards == shards && known.place.first == place.first && known.place.last == place.last &&
           known.layers == layers;
  });
  const RankLoad empty{.place = place, .layers = layers};
  if (units == units_.end()) units = units_.insert(units, {shards, place, layers, memory.Units(empty)});
  by_layers[at] = memory.Of(empty, units->units).Arena() - memory.OpWorkspace();
  return by_layers[at];
}

void DeeperPlans::Set(const ParallelPlan& least, std::uint32_t kib) {
  deeper_ = space_.DeeperThan(least);
  if (deeper_.depths.empty() && deeper_.parts.empty()) return;
  run_.Set(deeper_.plan, deeper_.depths, deeper_.parts);
  const auto takes_less = [&](std::size_t i) { return Kib(i) < kib; };
  std::vector<SearchSpace::RecomputeValue> parts;
  for (std::size_t i = 0; i < deeper_.parts.size(); ++i) {
    if (takes_less(deeper_.depths.size() + i)) parts.push_back(deeper_.parts[i]);
  }
  std::size_t first = 0;
  while (first < deeper_.depths.size() && !takes_less(first)) ++first;
  deeper_.depths.erase(deeper_.depths.begin(), deeper_.depths.begin() + static_cast<std::ptrdiff_t>(first));
  deeper_.parts = std::move(parts);
  run_.Set(deeper_.plan, deeper_.depths, deeper_.parts);
}

}  // namespace autocfg
