#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "search/planner/strategy/by_time.h"
#include "search/planner/strategy/confirmation.h"
#include "search/planner/strategy/strategies.h"

namespace autocfg {
namespace {

constexpr std::size_t kFirstRound = 6;
constexpr std::size_t kRacingRound = 4;
constexpr double kWorthwhile = 0.01;
// How many standard deviations below its prediction a plan's time may plausibly be. In 1000 synthetic studies
// (search_loop_studies_test), 1.645 loses the best plan by more than 2% in 5% of them, 2 in 2.7%, 2.4 in
// 2.1%. These measure 11, 13 and 15 of 112 plans.
constexpr double kPlausibleSigmas = 2;

using Layout = std::array<std::int64_t, 3>;
Layout LayoutOf(const CandidatePlan& c) { return {c.plan.tp, c.plan.pp, c.plan.dp}; }

bool Tried(const CandidatePlan& c) { return c.repeats > 0 || c.failed; }

std::int64_t TriedCount(const std::vector<CandidatePlan>& candidates) {
  return std::count_if(candidates.begin(), candidates.end(), Tried);
}

// Returns the standard deviation of the time's logarithm. The 90% interval extends 1.645 of them to either
// side.
double Sigma(const Prediction& p) { return std::log(p.step_time_high_s / p.step_time_low_s) / (2 * 1.645); }

// Returns true if the race may still measure this candidate.
bool InTheRace(const std::vector<CandidatePlan>& candidates, std::size_t i) {
  return !Tried(candidates[i]) && !IsDominated(candidates, i);
}

bool Plausible(const CandidatePlan& c, double incumbent_s) {
  return c.predicted.step_time_s * std::exp(-kPlausibleSigmas * Sigma(c.predicted)) <
         incumbent_s * (1 - kWorthwhile);
}

// Returns E[max(0, log incumbent - log time)], with log time normally distributed.
double ExpectedImprovement(const Prediction& p, double incumbent_s) {
  const double sigma = Sigma(p);
  const double gain = std::log(incumbent_s / p.step_time_s);
  if (sigma <= 0) return std::max(0.0, gain);
  const double z = gain / sigma;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
  return gain * std::erfc(-z / std::sqrt(2.0)) / 2 + sigma * density;
}

// Returns at most `most` untried candidates by predicted time, the best of each layout first.
std::vector<std::size_t> BestOfLayouts(const std::vector<CandidatePlan>& candidates, std::size_t most) {
  std::vector<TimedPlan> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (InTheRace(candidates, i)) order.push_back({candidates[i].predicted.step_time_s, i});
  }
  SortByTime(order, order.size(), [&](std::size_t i) {
    return Preference(candidates[i].predicted.memory.Total(), candidates[i].plan);
  });
  std::vector<std::size_t> chosen, rest;
  std::set<Layout> seen;
  for (const auto& [seconds, i] : order)
    (seen.insert(LayoutOf(candidates[i])).second ? chosen : rest).push_back(i);
  chosen.insert(chosen.end(), rest.begin(), rest.end());
  chosen.resize(std::min(chosen.size(), most));
  return chosen;
}

// Counts the untried candidates that may plausibly be the fastest.
std::int64_t InTheRaceStill(const std::vector<CandidatePlan>& candidates) {
  const std::size_t best = BestMeasured(candidates);
  std::int64_t race = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    race += (best == candidates.size() || Plausible(candidates[i], *candidates[best].measured_s)) &&
            InTheRace(candidates, i);
  }
  return race;
}

}  // namespace

std::int64_t RacingStrategy::Bound(const std::vector<CandidatePlan>& candidates) const {
  if (max_trials_ > 0) return max_trials_;
  std::int64_t n = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) n += !IsDominated(candidates, i);
  return std::max(std::min((n + 2) / 3, kMostRaced), std::min<std::int64_t>(kFirstRound, n));
}

std::vector<std::size_t> RacingStrategy::Suggest(const std::vector<CandidatePlan>& candidates) {
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
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CandidatePlan& c = candidates[i];
    if (Plausible(c, incumbent) && InTheRace(candidates, i))
      by_gain.emplace_back(-ExpectedImprovement(c.predicted, incumbent), i);
  }
  std::sort(by_gain.begin(), by_gain.end());
  std::vector<std::size_t> round;
  std::set<Layout> seen;
  const std::size_t most = std::min(kRacingRound, static_cast<std::size_t>(left));
  // A second plan of the same layout waits for the first one's measurement, unless the round has room.
  for (const auto& [gain, i] : by_gain) {
    if (round.size() < most && seen.insert(LayoutOf(candidates[i])).second) round.push_back(i);
  }
  for (const auto& [gain, i] : by_gain) {
    if (round.size() < most && std::find(round.begin(), round.end(), i) == round.end()) round.push_back(i);
  }
  return round.empty() ? SuggestConfirmation(candidates) : round;
}

std::int64_t RacingStrategy::PlansLeft(const std::vector<CandidatePlan>& candidates) const {
  const std::int64_t tried = TriedCount(candidates);
  // Repeats begin when the race is over, unless the bound ended it.
  if (ConfirmationsDone(candidates) > 0 && (max_trials_ == 0 || tried < max_trials_)) return 0;
  return std::min(InTheRaceStill(candidates),
                  std::max<std::int64_t>(0, RacingStrategy(0).Bound(candidates) - tried));
}

std::int64_t RacingStrategy::TrialsLeft(const std::vector<CandidatePlan>& candidates) const {
  const std::size_t best = BestMeasured(candidates);
  std::int64_t race = InTheRaceStill(candidates);
  const std::int64_t confirmed = ConfirmationsDone(candidates);
  if (confirmed > 0) race = 0;
  race = std::min(race, std::max<std::int64_t>(0, Bound(candidates) - TriedCount(candidates)));
  // A single plan has no ties, and slices are not repeated.
  const bool slices = best != candidates.size() && candidates[best].slice;
  return race +
         (!slices && candidates.size() > 1 ? std::max<std::int64_t>(0, kMostConfirmations - confirmed) : 0);
}

}  // namespace autocfg
