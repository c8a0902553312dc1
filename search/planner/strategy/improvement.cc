#include "search/planner/strategy/improvement.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "search/planner/strategy/confirmation.h"

namespace autocfg {
namespace {

constexpr double kSigmasOf90 = 1.645;  // between the middle and an end of a 90% interval

// Thousands of candidates are hardly ever the fastest. A chance below this is not looked at in detail.
constexpr double kLikely = 1e-6;

double NormalBelow(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

double LogGain(const Prediction& p, double incumbent_s) { return std::log(incumbent_s / p.step_time_s); }

}  // namespace

double LogSigma(const Prediction& p) {
  return std::log(p.step_time_high_s / p.step_time_low_s) / (2 * kSigmasOf90);
}

double ExpectedImprovement(const Prediction& p, double incumbent_s) {
  const double sigma = LogSigma(p), gain = LogGain(p, incumbent_s);
  if (sigma <= 0) return std::max(0.0, gain);
  const double z = gain / sigma;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return gain * NormalBelow(z) + sigma * density;
}

double ChanceBelow(const Prediction& p, double seconds) {
  const double sigma = LogSigma(p), gain = LogGain(p, seconds);
  if (sigma <= 0) return gain > 0 ? 1 : 0;
  return NormalBelow(gain / sigma);
}

std::vector<double> IndependentChances::ChanceOfAnyFrom(const std::vector<CandidatePlan>& candidates,
                                                        const std::vector<std::size_t>& of,
                                                        double seconds) const {
  std::vector<double> chances(of.size() + 1);
  double none = 0;  // logarithm of the chance of none
  for (std::size_t k = of.size(); k-- > 0;) {
    none += std::log1p(-ChanceBelow(candidates[of[k]].predicted, seconds));
    chances[k] = -std::expm1(none);
  }
  return chances;
}

std::int64_t Race::UntilChance(double most) const {
  const auto enough = std::partition_point(chance_from.begin(), chance_from.end(),
                                           [&](double chance) { return chance > most; });
  return enough - chance_from.begin();
}

Race RaceOf(const std::vector<CandidatePlan>& candidates, const std::vector<std::size_t>& untried,
            const ChanceModel& chances) {
  const std::size_t best = BestMeasured(candidates);
  if (best == candidates.size()) {
    Race race{.candidates = untried, .chance_from = std::vector<double>(untried.size() + 1, 1)};
    race.chance_from.back() = 0;
    return race;
  }
  const double seconds = *candidates[best].measured_s * (1 - kWorthwhile);
  std::vector<std::pair<double, std::size_t>> order;
  order.reserve(untried.size());
  for (const std::size_t i : untried) order.emplace_back(-ChanceBelow(candidates[i].predicted, seconds), i);
  std::sort(order.begin(), order.end());
  Race race;
  std::vector<std::size_t> likely;
  for (const auto& [minus_chance, i] : order) {
    race.candidates.push_back(i);
    if (-minus_chance >= kLikely) likely.push_back(i);
  }
  // Of the others, all chances together are added: never less than that of any.
  race.chance_from = chances.ChanceOfAnyFrom(candidates, likely, seconds);
  race.chance_from.resize(order.size() + 1);
  double others = 0;
  for (std::size_t k = order.size(); k-- > 0;) {
    if (k >= likely.size()) others -= order[k].first;
    race.chance_from[k] = std::min(race.chance_from[k] + others, 1.0);
  }
  return race;
}

}  // namespace autocfg
