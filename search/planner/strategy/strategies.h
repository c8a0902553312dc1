// The strategies: which feasible plans to measure, and when the evidence suffices. Deterministic; not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/planner/strategy/strategy.h"

namespace autocfg {

// Measures every feasible plan once, the best predicted one first, then confirms the best (confirmation.h).
class ExhaustiveStrategy : public Strategy {
 public:
  // `max_trials`: maximum number of plans to measure, repeats not counted; 0 means all.
  explicit ExhaustiveStrategy(std::int64_t max_trials) : max_trials_(max_trials) {}

  std::vector<std::size_t> Suggest(const std::vector<CandidatePlan>& candidates,
                                   const ChanceModel& chances) override;
  std::int64_t TrialsLeft(const std::vector<CandidatePlan>& candidates,
                          const ChanceModel& chances) const override;
  std::int64_t PlansLeft(const std::vector<CandidatePlan>& candidates,
                         const ChanceModel& chances) const override;
  double ChanceOfBetter(const std::vector<CandidatePlan>& candidates,
                        const ChanceModel& chances) const override;

 private:
  // Returns the untried candidates within the bound, the best predicted one first.
  std::vector<std::size_t> Untried(const std::vector<CandidatePlan>& candidates) const;

  std::int64_t max_trials_;
};

inline constexpr std::int64_t kMostRaced = 24;

// The default strategy. Measures the plans that may be the fastest, in rounds, until it is unlikely that
// another one is, or the bound is reached.
//
// First round: the best predicted plan of each layout (tp, pp, dp), for the best six layouts. Later rounds:
// up to four plans by expected improvement over the fastest measured one (improvement.h); plans of a layout
// not yet in the round go first if they promise a quarter of the largest improvement.
//
// Ends when the chance that any unmeasured plan is more than 1% faster than the fastest measured median is at
// most 5%. Confirmation (confirmation.h) follows.
//
// A plan that equals another one but does more work is skipped unless the other one failed (IsDominated).
class RacingStrategy : public Strategy {
 public:
  // `max_trials`: maximum number of plans to measure, repeats not counted. 0 means a third of the candidates
  // that are not dominated, rounded up, at least six and at most kMostRaced. The maximum exists because one
  // trial also improves the predictions of similar plans, so larger spaces need few more trials.
  explicit RacingStrategy(std::int64_t max_trials) : max_trials_(max_trials) {}

  std::vector<std::size_t> Suggest(const std::vector<CandidatePlan>& candidates,
                                   const ChanceModel& chances) override;
  std::int64_t TrialsLeft(const std::vector<CandidatePlan>& candidates,
                          const ChanceModel& chances) const override;
  std::int64_t PlansLeft(const std::vector<CandidatePlan>& candidates,
                         const ChanceModel& chances) const override;
  double ChanceOfBetter(const std::vector<CandidatePlan>& candidates,
                        const ChanceModel& chances) const override;

 private:
  std::int64_t Bound(const std::vector<CandidatePlan>& candidates) const;

  std::int64_t max_trials_;
};

}  // namespace autocfg
