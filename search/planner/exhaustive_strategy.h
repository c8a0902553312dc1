// Strategy that measures every feasible plan once, the best predicted one first, then confirms the best
// (confirmation.h). Deterministic; not thread-safe.
#pragma once

#include "search/planner/strategy.h"

namespace autocfg {

class ExhaustiveStrategy : public Strategy {
 public:
  // `max_trials`: maximum number of plans to measure, repeats not counted; 0 means all.
  explicit ExhaustiveStrategy(std::int64_t max_trials) : max_trials_(max_trials) {}

  std::vector<std::size_t> Suggest(const std::vector<CandidatePlan>& candidates) override;
  std::int64_t TrialsLeft(const std::vector<CandidatePlan>& candidates) const override;
  std::int64_t PlansLeft(const std::vector<CandidatePlan>& candidates) const override;

 private:
  // Returns the untried candidates within the bound, the best predicted one first.
  std::vector<std::size_t> Untried(const std::vector<CandidatePlan>& candidates) const;

  std::int64_t max_trials_;
};

}  // namespace autocfg
