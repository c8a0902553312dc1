// What unmeasured plans may gain over the fastest measured one, by their predictions: the logarithm of a step
// time is normally distributed, with the 90% interval that the prediction gives. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/planner/strategy/strategy.h"

namespace autocfg {

// The least gain that matters: plans within a hundredth are as good as each other.
inline constexpr double kWorthwhile = 0.01;

// Returns the standard deviation of the logarithm of the step time. Requires an interval.
double LogSigma(const Prediction& p);

// Returns E[max(0, log(incumbent) - log(time))] (Jones, Schonlau and Welch 1998, on the logarithm of time).
double ExpectedImprovement(const Prediction& p, double incumbent_s);

// Returns the chance that the plan's step takes less than `seconds`.
double ChanceBelow(const Prediction& p, double seconds);

// The most that the chances can be: what they are if every plan errs by itself. Plans err alike rather than
// the other way round, and then a fast one among many is less likely (Slepian 1962).
class IndependentChances final : public ChanceModel {
 public:
  std::vector<double> ChanceOfAnyFrom(const std::vector<CandidatePlan>& candidates,
                                      const std::vector<std::size_t>& of, double seconds) const override;
};

// The candidates that a strategy may still measure, the likeliest to be faster than the fastest measured one
// by more than kWorthwhile first, and how likely any of those from each one on is; 1 each if none is
// measured.
struct Race {
  std::vector<std::size_t> candidates;
  std::vector<double> chance_from;  // [candidates.size() + 1]; 0 for the last

  // How many of them must be measured for the chance of any other to be at most `most`.
  std::int64_t UntilChance(double most) const;
};
Race RaceOf(const std::vector<CandidatePlan>& candidates, const std::vector<std::size_t>& untried,
            const ChanceModel& chances);

}  // namespace autocfg
