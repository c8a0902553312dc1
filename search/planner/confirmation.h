// The last part of every strategy: plans that are statistically tied with the best are measured again, in
// turns. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/planner/strategy.h"

namespace autocfg {

inline constexpr std::int64_t kMostConfirmations = 9;

// Repeats asked for and measured so far, over all candidates.
std::int64_t ConfirmationsDone(const std::vector<CandidatePlan>& candidates);

// The measured plan with the least median; candidates.size() when there is none.
std::size_t BestMeasured(const std::vector<CandidatePlan>& candidates);

// The next turn of repeats: of the best plan and those tied with it (median within 5% of the best, or
// overlapping 95% intervals), the best three at most; each is repeated three times, since a machine's speed
// drifts by a few percent between the rounds of a search and only turns compare like with like. Empty when no
// plan is tied with the best, or when a turn would exceed kMostConfirmations. Slices are not repeated: what
// they do not see of a step is larger than what repeats would tell.
std::vector<std::size_t> SuggestConfirmation(const std::vector<CandidatePlan>& candidates);

}  // namespace autocfg
