// An alternative of a plan of a space (SearchSpace::Alternative) with each of its values of recompute, with
// definite splits, and the memory of the worst ranks. What plans of a layout share is computed once: by their
// layer options, and by their states. Not thread-safe; the cost model's caches grow.
//
// A plan of the run is the index of its value of recompute: of the depths, then of the sets of parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/cost/memory/plan_memory.h"
#include "search/cost/memory/rank_units.h"
#include "search/plan/parallel_plan.h"
#include "search/space/search_space.h"

namespace autocfg {

// Returns an arena's size, rounded up; at most 4 TiB.
std::uint32_t Kibibytes(std::int64_t bytes);

class ResolvedRun {
 public:
  // Refers to both.
  ResolvedRun(const SearchSpace& space, CostModel& costs);
  ResolvedRun(const ResolvedRun&) = delete;
  ResolvedRun& operator=(const ResolvedRun&) = delete;

  // Goes to another run. `depths` and `parts` stay as they are until the next call.
  using Values = std::span<const SearchSpace::RecomputeValue>;
  void Set(const ParallelPlan& run, Values depths, Values parts);

  // Returns whether all plans of the run have one split.
  bool HasOneSplit() const { return !auto_; }

  // Returns whether split=auto gives the i-th plan a split that the space has anyway.
  bool IsDuplicate(std::size_t i) { return auto_ && SplitOf(i).held; }

  // Returns whether the i-th plan has an even split. Requires split=auto.
  bool IsEven(std::size_t i) { return SplitOf(i).stage.split == SplitMode::kEven; }

  // Returns ResolveSplit of the i-th plan, until the next call. Stages are balanced by their times without
  // messages between them and without what a rank does once in a step, so that plans which differ in these
  // alone have one split.
  const ParallelPlan& At(std::size_t i);

  // Returns the bytes of the arena of the plan's worst rank: CostModel::ArenaOf(At(i)).
  std::int64_t Arena(std::size_t i);

  // A plan of the run, and the bytes of its arena.
  struct Sized {
    std::size_t index = 0;
    std::int64_t bytes = 0;
  };
  // Returns the first of the depths whose arena takes at most so many bytes; the last one if none does. More
  // recompute takes less memory; under split=auto, a rank that gets a layer more may be an exception. There,
  // begins at `hint`, or at the answer for a plan with the same splits. `from`: those before it are known not
  // to fit.
  Sized LeastThatFits(std::int64_t arena_bytes, std::size_t from = 0, std::optional<std::size_t> hint = {});

  // Returns the plan that fits and recomputes parts in the least time; nothing if none does. Where the
  // schedule splits backwards, of those whose layers delay their weight gradients, or of the others.
  std::optional<Sized> FastestPartsThatFit(std::int64_t arena_bytes, bool delays);

  // Returns true only if a plan that FastestPartsThatFit returned takes no longer than one of the depths: it
  // adds at most as much to each number of layers of a stage. False if layers are of several kinds.
  bool IsFaster(std::size_t parts, std::size_t depth);

 private:
  // Everything below is made when first needed.
  struct RankBytes {
    RankPlace place;
    std::int64_t layers = 0;
    std::int64_t bytes = 0;  // what ops keep and work in
    std::int64_t saved = 0;  // by each recomputed layer of a stage, where `bytes` are those without
  };
  static constexpr std::int64_t kUnknown = -1;
  // By whether messages overlap and whether they are scattered.
  template <typename T>
  using ByMessages = std::array<std::array<T, 2>, 2>;
  // What plans of a layout share is made anew for each layout, in the memory of the last one.
  template <typename T>
  class Reused {
   public:
    T& Add() {
      if (size_ == all_.size()) all_.emplace_back();
      all_[size_].Clear();
      return all_[size_++];
    }
    void Clear() { size_ = 0; }
    template <typename Is>
    T* Find(const Is& is) {
      for (std::size_t i = 0; i < size_; ++i) {
        if (is(all_[i])) return &all_[i];
      }
      return nullptr;
    }

   private:
    std::deque<T> all_;
    std::size_t size_ = 0;
  };
  struct AutoSplit {
    StageOptions stage;
    bool held = false;                           // by the space
    std::array<std::vector<RankLoad>, 2> loads;  // by whether messages overlap
    ByMessages<std::vector<RankBytes>> ranks;
    void Clear();
  };
  // Values of recompute whose layers keep the same: none, full with any depth, and each set of parts.
  static constexpr std::size_t kModes = 2 + LayerParts::kSets;
  // The place of a value among those of its mode.
  static std::size_t DepthIndex(const SearchSpace::RecomputeValue& value) {
    return value.mode == Recompute::kSelective ? value.parts.Index() : static_cast<std::size_t>(value.layers);
  }
  static std::size_t ModeIndex(const SearchSpace::RecomputeValue& value) {
    if (value.mode == Recompute::kSelective) return 2 + value.parts.Index();
    return value.mode == Recompute::kFull ? 1 : 0;
  }

  // What plans share that have the same layer options but recompute.
  struct LayerGroup {
    struct Mode {
      std::optional<PlanMemory> memory;
      std::vector<RankBytes> even;  // of an even split, without full recomputation
      void Clear();
    };
    LayerOptions layer;  // without recomputation
    ByMessages<Reused<Mode>> modes;
    ByMessages<std::array<Mode*, kModes>> mode_of{};  // by ModeIndex; null: not made
    // The splits of plans with split=auto.
    Reused<AutoSplit> splits;
    // By mode, then by layers or the index of the parts; null: not made.
    std::array<std::vector<AutoSplit*>, kRecomputeCount> by_depth;
    std::size_t least_that_fits = 0;                 // of the last plan
    std::vector<SearchSpace::RecomputeValue> parts;  // of the last plan that was asked for them
    std::vector<double> parts_s;  // that they add to a microbatch, and that full recomputation does
    double full_s = 0;
    bool alike = true;                         // all layers are of one kind
    std::vector<std::size_t> parts_by_time;    // their places
    std::optional<std::size_t> largest_parts;  // the place of the set that holds all others
    void Clear();
  };
  // What plans with the same states share: bytes of a rank besides what ops keep and work in.
  struct StatesGroup {
    StateOptions states;
    bool sequence_parallel = false;
    // By whether a rank is the first and whether it is the last, then by its layers; kUnknown: not made.
    ByMessages<std::array<std::vector<std::int64_t>, 4>> fixed;
    void Clear();
  };
  // The units of ranks, which plans of a mesh share.
  struct KnownUnits {
    std::int64_t shards = 1;
    RankPlace place;
    std::int64_t layers = 0;
    RankUnits units;
  };

  const SearchSpace::RecomputeValue& ValueAt(std::size_t i) const {
    return i < values_.size() ? values_[i] : parts_[i - values_.size()];
  }
  void KnowParts();
  // Seconds that a value adds to the backwards of all layers of a microbatch.
  double AddedSeconds(const SearchSpace::RecomputeValue& value);
  // Returns the split of the i-th plan, with split=auto.
  AutoSplit& SplitOf(std::size_t i) {
    const SearchSpace::RecomputeValue& value = ValueAt(i);
    const std::vector<AutoSplit*>& known = layer_->by_depth[static_cast<std::size_t>(value.mode)];
    const std::size_t at = DepthIndex(value);
    return at < known.size() && known[at] != nullptr ? *known[at] : MakeSplit(value);
  }
  AutoSplit& MakeSplit(const SearchSpace::RecomputeValue& value);
  // Appends the bytes of ranks with these loads.
  void AddRanks(const std::vector<RankLoad>& loads, const PlanMemory& memory,
                std::vector<RankBytes>& ranks) const;
  // Returns true only if no plan of the run fits, whatever the splits are; computes none of these.
  bool IsTooLarge(std::int64_t arena_bytes);
  LayerGroup::Mode& ModeOf(const SearchSpace::RecomputeValue& value) {
    LayerGroup::Mode*& mode = Of(layer_->mode_of)[ModeIndex(value)];
    if (mode == nullptr) mode = &Of(layer_->modes).Add();
    return *mode;
  }
  const PlanMemory& MemoryOf(const SearchSpace::RecomputeValue& value);
  std::vector<RankLoad> LoadsOf(const ParallelPlan& plan);  // a plan of the layout
  std::int64_t FixedBytes(RankPlace place, std::int64_t layers) {
    const std::vector<std::int64_t>& known =
        Of(states_->fixed)[(place.first ? 1U : 0U) + (place.last ? 2U : 0U)];
    const auto at = static_cast<std::size_t>(layers);
    return at < known.size() && known[at] != kUnknown ? known[at] : MakeFixedBytes(place, layers);
  }
  std::int64_t MakeFixedBytes(RankPlace place, std::int64_t layers);
  template <typename T>
  T& Of(ByMessages<T>& by_messages) const {
    return by_messages[plan_.p2p_overlap ? 1 : 0][plan_.scatter_gather ? 1 : 0];
  }

  const SearchSpace& space_;
  CostModel& costs_;
  Values values_, parts_;
  ParallelPlan plan_{{.tp = 0}};   // the run at hand, with the recompute of the plan at hand
  ParallelPlan resolved_;          // see At
  bool auto_ = false;              // whether its split is balanced
  LayerGroup* layer_ = nullptr;    // of the run
  StatesGroup* states_ = nullptr;  // of the run
  // Of the layout at hand.
  Reused<LayerGroup> layers_;
  Reused<StatesGroup> all_states_;
  // By whether messages overlap.
  std::array<std::vector<std::int64_t>, 2> in_flight_;
  std::array<std::vector<RankLoad>, 2> even_;  // without recomputation
  std::vector<KnownUnits> units_;              // of the mesh at hand
};

// The plans that differ from one of a space in that they recompute more and take less memory
// (SearchSpace::DeeperThan): first the depths, from the least on, then sets of parts.
class DeeperPlans {
 public:
  // Refers to both.
  DeeperPlans(CostModel& costs, const SearchSpace& space)
      : costs_(costs), space_(space), run_(space, costs) {}

  // `kib`: what the arena of `least` takes.
  void Set(const ParallelPlan& least, std::uint32_t kib);
  std::size_t depths() const { return deeper_.depths.size(); }
  std::size_t size() const { return deeper_.depths.size() + deeper_.parts.size(); }
  const ParallelPlan& At(std::size_t i) { return run_.At(i); }  // until the next call
  std::uint32_t Kib(std::size_t i) { return Kibibytes(run_.Arena(i)); }
  double SecondsAtLeast(std::size_t i) { return costs_.SecondsAtLeast(At(i)); }

 private:
  CostModel& costs_;
  const SearchSpace& space_;
  SearchSpace::Deeper deeper_;
  ResolvedRun run_;
};

}  // namespace autocfg
