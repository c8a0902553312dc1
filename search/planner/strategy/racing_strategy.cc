#include <algorithm>
#include <array>
#include <set>

#include "search/planner/strategy/by_time.h"
#include "search/planner/strategy/confirmation.h"
#include "search/planner/strategy/improvement.h"
#include "search/planner/strategy/strategies.h"

namespace autocfg {
namespace {

constexpr std::size_t kFirstRound = 6;
constexpr std::int64_t kRacingRound = 4;
// The race ends once the chance that an unmeasured plan is faster by kWorthwhile is at most this.
constexpr double kLeastChance = 0.05;

// The least expected improvement of another layout's plan that goes first, as a share of the largest.
constexpr double kLeastGainOfLayout = 0.25;

bool Tried(const CandidatePlan& c) { return c.repeats > 0 || c.failed; }

std::int64_t TriedCount(const std::vector<CandidatePlan>& candidates) {
  return std::count_if(candidates.begin(), candidates.end(), Tried);
}

// Returns the candidates that the race may still measure.
std::vector<std::size_t> InTheRace(const std::vector<CandidatePlan>& candidates) {
  std::vector<std::size_t> race;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!Tried(candidates[i]) && !IsDominated(candidates, i)) race.push_back(i);
  }
  return race;
}

// Returns at most `most` untried candidates by predicted time, the best of each layout first.
std::vector<std::size_t> BestOfLayouts(const std::vector<CandidatePlan>& candidates, std::size_t most) {
  std::vector<TimedPlan> order;
  for (const std::size_t i : InTheRace(candidates)) order.push_back({candidates[i].predicted.step_time_s, i});
  SortByTime(order, order.size(), [&](std::size_t i) {
    return Preference(candidates[i].predicted.memory.Total(), candidates[i].plan);
  });
  std::vector<std::size_t> chosen, rest;
  std::set<MeshOptions> seen;
  for (const auto& [seconds, i] : order)
    (seen.insert(candidates[i].plan.mesh()).second ? chosen : rest).push_back(i);
  chosen.insert(chosen.end(), rest.begin(), rest.end());
  chosen.resize(std::min(chosen.size(), most));
  return chosen;
}

// Returns how many candidates must be measured, the most promising first, until the race ends.
std::int64_t InTheRaceStill(const std::vector<CandidatePlan>& candidates, const ChanceModel& chances) {
  return RaceOf(candidates, InTheRace(candidates), chances).UntilChance(kLeastChance);
}

}  // namespace

std::int64_t RacingStrategy::Bound(const std::vector<CandidatePlan>& candidates) const {
  if (max_trials_ > 0) return max_trials_;
  std::int64_t n = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) n += !IsDominated(candidates, i);
  return std::max(std::min((n + 2) / 3, kMostRaced), std::min<std::int64_t>(kFirstRound, n));
}

std::vector<std::size_t> RacingStrategy::Suggest(const std::vector<CandidatePlan>& candidates,
                                                 const ChanceModel& chances) {
  // The race ends once repeats have begun. A slower repeat does not reopen it.
  if (ConfirmationsDone(candidates) > 0) return SuggestConfirmation(candidates);
  const std::int64_t left = Bound(candidates) - TriedCount(candidates);
  if (left <= 0) return SuggestConfirmation(candidates);

  const std::size_t best = BestMeasured(candidates);
  if (best == candidates.size()) {
    return BestOfLayouts(candidates, std::min(kFirstRound, static_cast<std::size_t>(left)));
  }
  const double incumbent = *candidates[best].measured_s;

  std::vector<std::pair<double, std::size_t>> by_gain;
  for (const std::size_t i : InTheRace(candidates))
    by_gain.emplace_back(-ExpectedImprovement(candidates[i].predicted, incumbent), i);
  std::sort(by_gain.begin(), by_gain.end());
  std::vector<std::size_t> round;
  std::set<MeshOptions> seen;
  const auto most =
      static_cast<std::size_t>(std::min({kRacingRound, left, InTheRaceStill(candidates, chances)}));
  // A second plan of the same layout waits for the first one's measurement, if other layouts promise
  // something or the round has no room.
  for (const auto& [gain, i] : by_gain) {
    if (gain > by_gain.front().first * kLeastGainOfLayout) break;  // gains are negative here
    if (round.size() < most && seen.insert(candidates[i].plan.mesh()).second) round.push_back(i);
  }
  for (const auto& [gain, i] : by_gain) {
    if (round.size() < most && std::find(round.begin(), round.end(), i) == round.end()) round.push_back(i);
  }
  return round.empty() ? SuggestConfirmation(candidates) : round;
}

double RacingStrategy::ChanceOfBetter(const std::vector<CandidatePlan>& candidates,
                                      const ChanceModel& chances) const {
  return RaceOf(candidates, InTheRace(candidates), chances).chance_from.front();
}

std::int64_t RacingStrategy::PlansLeft(const std::vector<CandidatePlan>& candidates,
                                       const ChanceModel& chances) const {
  const std::int64_t tried = TriedCount(candidates);
  // Repeats begin when the race is over, unless the bound ended it.
  if (ConfirmationsDone(candidates) > 0 && (max_trials_ == 0 || tried < max_trials_)) return 0;
  return std::min(InTheRaceStill(candidates, chances),
                  std::max<std::int64_t>(0, RacingStrategy(0).Bound(candidates) - tried));
}

std::int64_t RacingStrategy::TrialsLeft(const std::vector<CandidatePlan>& candidates,
                                        const ChanceModel& chances) const {
  const std::size_t best = BestMeasured(candidates);
  std::int64_t race = InTheRaceStill(candidates, chances);
  const std::int64_t confirmed = ConfirmationsDone(candidates);
  if (confirmed > 0) race = 0;
  race = std::min(race, std::max<std::int64_t>(0, Bound(candidates) - TriedCount(candidates)));
  // A single plan has no ties, and slices are not repeated.
  const bool slices = best != candidates.size() && candidates[best].slice;
  return race +
         (!slices && candidates.size() > 1 ? std::max<std::int64_t>(0, kMostConfirmations - confirmed) : 0);
}

}  // namespace autocfg
