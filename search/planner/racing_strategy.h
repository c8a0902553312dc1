// The default strategy: measures the plans that may plausibly be the fastest, in rounds, until none is left
// or the bound is reached. Deterministic; not thread-safe.
//
// First round: the predicted best of each layout (tp, pp, dp), the best six layouts. Later rounds: up to four
// plans by expected improvement over the fastest measured one (Jones, Schonlau and Welch 1998, on the
// logarithm of time), those first that differ in layout from others of the round. Ends when no unmeasured
// plan, two standard deviations below its prediction, beats the fastest measured median by more than 1%. Then
// confirmation.h.
//
// A plan that does what another one does and recomputes more is left out unless that one failed
// (IsDominated).
#pragma once

#include "search/planner/strategy.h"

namespace autocfg {

inline constexpr std::int64_t kMostRaced = 24;

class RacingStrategy : public Strategy {
 public:
  // `max_trials`: plans to measure at most, repeats not counted; 0: a third of the candidates that are not
  // dominated, rounded up, at least six and at most kMostRaced: what a trial teaches carries over to plans
  // like it, so that a larger space asks for more trials only up to there.
  explicit RacingStrategy(std::int64_t max_trials) : max_trials_(max_trials) {}

  std::vector<std::size_t> Suggest(const std::vector<CandidatePlan>& candidates) override;
  std::int64_t TrialsLeft(const std::vector<CandidatePlan>& candidates) const override;
  std::int64_t PlansLeft(const std::vector<CandidatePlan>& candidates) const override;

 private:
  std::int64_t Bound(const std::vector<CandidatePlan>& candidates) const;

  std::int64_t max_trials_;
};

}  // namespace autocfg
