// How likely candidates are to be fast, by the recalibration of their search: what plans have in common, they
// err by together.
#pragma once

#include <cstddef>
#include <vector>

#include "search/planner/search_state.h"
#include "search/planner/strategy/strategy.h"

namespace autocfg {

class RecalibratedChances final : public ChanceModel {
 public:
  // `state` must outlive this object.
  explicit RecalibratedChances(const SearchState& state) : state_(state) {}

  // Requires the state's own candidates.
  std::vector<double> ChanceOfAnyFrom(const std::vector<CandidatePlan>& candidates,
                                      const std::vector<std::size_t>& of, double seconds) const override;

 private:
  const SearchState& state_;
};

}  // namespace autocfg
