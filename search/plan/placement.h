// Where a rank keeps the states of parameters: which of them it has whole, and of which only its part. A
// stage of ZeRO (Rajbhandari et al. 2020) is the name of a placement; bytes, reductions, gathers and
// checkpoints follow from the table. Parts are equal, of the StateShards ranks of the shard group
// (docs/engine.md, "Units"). Plain values; pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "search/ops/dtype.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/states/precision.h"

namespace autocfg {

// What is kept of each parameter.
enum class State : std::uint8_t { kParameters, kGradients, kMoments, kMaster };
inline constexpr std::size_t kStateCount = static_cast<std::size_t>(State::kMaster) + 1;

// Units by what their parameters are of.
enum class UnitKind : std::uint8_t { kNorms, kEmbedding, kLayer, kOutputLayer };
inline constexpr std::size_t kUnitKindCount = static_cast<std::size_t>(UnitKind::kOutputLayer) + 1;

struct PlacementRow {
  UnitKind unit;
  // By state: the first stage of ZeRO in which a rank keeps only its part.
  std::array<std::int64_t, kStateCount> parts_from_zero;
};

inline constexpr std::int64_t kAlwaysWhole = 4;

// Norms stay whole: their gradients are complete only after the computes, once the tensor group has summed
// them, and they are small.
inline constexpr std::array<PlacementRow, kUnitKindCount> kPlacements = {{
    //                      parameters, gradients, moments, master copy
    {UnitKind::kNorms, {kAlwaysWhole, kAlwaysWhole, 1, 1}},
    {UnitKind::kEmbedding, {3, 2, 1, 1}},
    {UnitKind::kLayer, {3, 2, 1, 1}},
    {UnitKind::kOutputLayer, {3, 2, 1, 1}},
}};

static_assert([] {
  for (std::size_t i = 0; i < kUnitKindCount; ++i) {
    if (kPlacements[i].unit != static_cast<UnitKind>(i)) return false;
  }
  return true;
}());

constexpr std::int64_t PartsFromZero(UnitKind unit, State state) {
  return kPlacements[static_cast<std::size_t>(unit)].parts_from_zero[static_cast<std::size_t>(state)];
}

// Whether a rank keeps only its part of the state.
constexpr bool IsSharded(const ParallelPlan& plan, UnitKind unit, State state) {
  return ShardsStates(plan) && plan.zero_stage >= PartsFromZero(unit, state);
}

// Returns how many of a unit's `elements`, a multiple of StateShards, a rank keeps of the state.
constexpr std::int64_t KeptElements(const ParallelPlan& plan, UnitKind unit, State state,
                                    std::int64_t elements) {
  return IsSharded(plan, unit, state) ? elements / StateShards(plan) : elements;
}

// Whether computes may gather such a unit's parameters, or reduce its gradient, where they use it. Units of
// other kinds are exchanged before or after all computes.
constexpr bool IsStreamed(UnitKind unit) { return PartsFromZero(unit, State::kGradients) != kAlwaysWhole; }

// Whether a rank keeps only its part of some unit's gradients, or parameters. All elements of such a unit
// then pass through a buffer.
template <State kState>
constexpr bool ShardsAny(const ParallelPlan& plan) {
  constexpr std::int64_t kFrom = [] {
    std::int64_t least = kAlwaysWhole;
    for (const PlacementRow& row : kPlacements) least = std::min(least, PartsFromZero(row.unit, kState));
    return least;
  }();
  return plan.zero_stage >= kFrom && ShardsStates(plan);
}
constexpr bool ShardsGradients(const ParallelPlan& plan) { return ShardsAny<State::kGradients>(plan); }
constexpr bool ShardsParameters(const ParallelPlan& plan) { return ShardsAny<State::kParameters>(plan); }

// Whether computes reduce a unit's gradient: that of each microbatch if a rank keeps only its part, else that
// of the step, in the last compute.
constexpr bool IsReducedInComputes(const ParallelPlan& plan, UnitKind unit) {
  return IsStreamed(unit) && (IsSharded(plan, unit, State::kGradients) || OverlapsGradients(plan));
}

// Returns the type of a state; nothing if the precision has none.
constexpr std::optional<DType> TypeOfState(const Precision& precision, State state) {
  switch (state) {
    case State::kParameters: return precision.parameters;
    case State::kGradients: return precision.gradients;
    case State::kMoments: return precision.moments;
    case State::kMaster: return precision.master;
  }
  return std::nullopt;
}

}  // namespace autocfg
