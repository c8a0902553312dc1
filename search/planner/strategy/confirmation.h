// The last phase of every strategy: plans statistically tied with the best are measured again, in turns.
// Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/planner/strategy/strategy.h"

namespace autocfg {

inline constexpr std::int64_t kMostConfirmations = 9;

// Returns the number of repeats asked for and measured so far, over all candidates.
std::int64_t ConfirmationsDone(const std::vector<CandidatePlan>& candidates);

// Returns the measured plan with the lowest median; candidates.size() if there is none.
std::size_t BestMeasured(const std::vector<CandidatePlan>& candidates);

// Returns the next turn of repeats: the best plan and those tied with it, three at most. A plan is tied if
// its median is within 5% of the best, or if their 95% intervals overlap. Each plan is repeated three times
// in turns: a machine's speed drifts by a few percent between the rounds of a search, and only turns compare
// like with like.
//
// Empty if no plan is tied with the best, or if a turn would exceed kMostConfirmations. Slices are not
// repeated: the part of a step that they do not show outweighs what repeats would add.
std::vector<std::size_t> SuggestConfirmation(const std::vector<CandidatePlan>& candidates);

}  // namespace autocfg
