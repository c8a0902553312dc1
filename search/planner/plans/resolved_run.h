// An alternative of a plan of a space (SearchSpace::Alternative) with each of its values of recompute, with
// definite splits, and the memory of the worst ranks. What plans of a layout share is computed once: by their
// layer options, and by their states. Not thread-safe; the cost model's caches grow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/cost_model.h"
#include "search/cost/memory/plan_memory.h"
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

  // Goes to another run. `values` stay as they are until the next call.
  void Set(const ParallelPlan& run, std::span<const SearchSpace::RecomputeValue> values);

  // Returns whether all plans of the run have one split.
  bool HasOneSplit() const { return auto_ == nullptr; }

  // Returns whether split=auto gives the i-th plan a split that the space has anyway.
  bool IsDuplicate(std::size_t i) { return auto_ != nullptr && SplitOf(i).held; }

  // Returns ResolveSplit of the i-th plan, until the next call. Stages are balanced by their times without
  // messages between them and without what a rank does once in a step, so that plans which differ in these
  // alone have one split.
  const ParallelPlan& At(std::size_t i);

  // Returns the bytes of the arena of the plan's worst rank: CostModel::ArenaOf(At(i)).
  std::int64_t Arena(std::size_t i);

  // Returns the first plan whose arena takes at most so many bytes; the last one if none does. More recompute
  // takes less memory; under split=auto, a rank that gets a layer more may be an exception. There, begins at
  // `hint`, or at the answer for a plan with the same splits. `from`: those before it are known not to fit.
  std::size_t LeastThatFits(std::int64_t arena_bytes, std::size_t from = 0,
                            std::optional<std::size_t> hint = {});

 private:
  // What depends on whether messages overlap.
  using Loads = std::array<std::vector<RankLoad>, 2>;
  // All made when first needed.
  struct AutoSplit {
    bool made = false;
    StageOptions stage;
    bool held = false;  // by the space
    Loads loads;
  };
  // The splits of all plans that differ in messages and states alone.
  struct AutoRun {
    std::vector<SearchSpace::RecomputeValue> values;
    std::vector<AutoSplit> splits;
    std::size_t least_that_fits = 0;  // of the last plan
  };
  using Memories = std::array<std::optional<PlanMemory>, kRecomputeCount>;  // by mode
  // Bytes of a rank besides what ops keep and work in.
  struct Fixed {
    RankPlace place;
    std::int64_t layers = 0;
    std::int64_t bytes = 0;
  };

  // What the sizes of tensors depend on in a layout: all layer options but recompute.
  struct LayerKey {
    LayerOptions layer;
    bool scatter_gather = false;
    bool operator==(const LayerKey&) const = default;
  };
  // What fixed bytes depend on in a layout.
  struct StatesKey {
    StateOptions states;
    MessageOptions messages;
    bool sequence_parallel = false;
    bool operator==(const StatesKey&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const LayerKey& key) const;
    std::size_t operator()(const StatesKey& key) const;
  };

  // Of a rank with an even split: without recomputation, and what each recomputed layer of a stage saves.
  struct EvenBytes {
    std::int64_t all = 0, saved = 0;
  };

  AutoSplit& SplitOf(std::size_t i);  // of the i-th plan, with split=auto
  // Returns true only if no plan of the run fits, whatever the splits are; computes none of these.
  bool IsTooLarge(std::int64_t arena_bytes);
  const PlanMemory& MemoryOf(Recompute mode);
  std::int64_t FixedBytes(const RankLoad& load);

  const SearchSpace& space_;
  CostModel& costs_;
  const bool engine_needs_memory_;
  std::span<const SearchSpace::RecomputeValue> values_;
  ParallelPlan plan_;                    // the run at hand, with the recompute of the plan at hand
  ParallelPlan resolved_;                // see At
  AutoRun* auto_ = nullptr;              // of a run with split=auto
  Memories* memory_ = nullptr;           // of the run
  std::vector<Fixed>* fixed_ = nullptr;  // of the run
  std::array<std::vector<EvenBytes>, kRecomputeCount>
      even_bytes_;  // of the run, by mode; if its split is even
  // Of the layout at hand.
  MeshOptions mesh_{.tp = 0};
  StageOptions layout_;
  std::int64_t micro_batch_ = 0;
  absl::flat_hash_map<LayerKey, AutoRun, KeyHash> auto_runs_;  // plain messages
  absl::flat_hash_map<LayerKey, Memories, KeyHash> memories_;
  absl::flat_hash_map<StatesKey, std::vector<Fixed>, KeyHash> fixed_of_;
  Loads even_;  // without recomputation
};

// The plans that differ from one of a space in that they recompute more (SearchSpace::DeeperThan), from the
// least on.
class DeeperPlans {
 public:
  // Refers to both.
  DeeperPlans(CostModel& costs, const SearchSpace& space)
      : costs_(costs), space_(space), run_(space, costs) {}

  void Set(const ParallelPlan& least) {
    deeper_ = space_.DeeperThan(least);
    if (!deeper_.values.empty()) run_.Set(deeper_.plan, deeper_.values);
  }
  std::size_t size() const { return deeper_.values.size(); }
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
