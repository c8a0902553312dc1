#include <algorithm>

#include "search/planner/strategy/confirmation.h"
#include "search/planner/strategy/improvement.h"
#include "search/planner/strategy/strategies.h"

namespace autocfg {
namespace {

// Between rounds, predictions are recalibrated and progress is shown.
constexpr std::size_t kExhaustiveRound = 8;

}  // namespace

std::vector<std::size_t> ExhaustiveStrategy::Untried(const std::vector<CandidatePlan>& candidates) const {
  std::vector<std::size_t> untried;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].repeats == 0 && !candidates[i].failed) untried.push_back(i);
  }
  std::stable_sort(untried.begin(), untried.end(), [&](std::size_t a, std::size_t b) {
    return candidates[a].predicted.step_time_s < candidates[b].predicted.step_time_s;
  });
  if (max_trials_ > 0) {
    const auto tried = static_cast<std::int64_t>(candidates.size() - untried.size());
    const std::int64_t left = std::max<std::int64_t>(0, max_trials_ - tried);
    untried.resize(std::min(untried.size(), static_cast<std::size_t>(left)));
  }
  return untried;
}

std::vector<std::size_t> ExhaustiveStrategy::Suggest(const std::vector<CandidatePlan>& candidates,
                                                     const ChanceModel& /*chances*/) {
  std::vector<std::size_t> round;
  if (ConfirmationsDone(candidates) == 0) round = Untried(candidates);
  if (round.empty()) return SuggestConfirmation(candidates);
  round.resize(std::min(round.size(), kExhaustiveRound));
  return round;
}

std::int64_t ExhaustiveStrategy::PlansLeft(const std::vector<CandidatePlan>& candidates,
                                           const ChanceModel& /*chances*/) const {
  return static_cast<std::int64_t>(ExhaustiveStrategy(0).Untried(candidates).size());
}

double ExhaustiveStrategy::ChanceOfBetter(const std::vector<CandidatePlan>& candidates,
                                          const ChanceModel& chances) const {
  return RaceOf(candidates, ExhaustiveStrategy(0).Untried(candidates), chances).chance_from.front();
}

std::int64_t ExhaustiveStrategy::TrialsLeft(const std::vector<CandidatePlan>& candidates,
                                            const ChanceModel& /*chances*/) const {
  const std::int64_t confirmed = ConfirmationsDone(candidates);
  const auto race = confirmed > 0 ? 0 : static_cast<std::int64_t>(Untried(candidates).size());
  return race + (candidates.size() > 1 ? std::max<std::int64_t>(0, kMostConfirmations - confirmed) : 0);
}

}  // namespace autocfg
