// The plans of a search: bounds per axis, enumerated lazily in a fixed order. Immutable, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// Allowed values per axis, by the plan-text names of CONTRACT.md ("tp", "mbs", "schedule", ...).
using AxisValues = std::vector<std::pair<std::string, std::vector<std::string>>>;

class SearchSpace {
 public:
  // InvalidArgument names an unknown axis (with the nearest names) or a value that the axis does not take; Unimplemented an axis or
  // value that the engine does not run yet. Axes not named take every value: tp, pp, dp all factorisations of `ranks`, mbs the divisors of
  // global_batch / dp, schedule gpipe and 1f1b, recompute none and full.
  static absl::StatusOr<SearchSpace> Create(const ModelSpec& model, const Workload& workload, std::int64_t ranks,
                                            const AxisValues& values);

  struct Counts {
    std::int64_t enumerated = 0;
    std::array<std::int64_t, kIllegalReasonCount> illegal{};
  };

  // Calls `visit` for every legal plan of the space in canonical form, each once, until it returns false; counts the others by reason.
  // Uses all ranks: tp*pp*dp == ranks.
  Counts ForEachLegal(const std::function<bool(const ParallelPlan&)>& visit) const;

 private:
  ModelSpec model_;
  Workload workload_;
  std::int64_t ranks_ = 1;
  std::vector<std::int64_t> tp_, pp_, dp_, micro_batch_;
  std::vector<Schedule> schedules_;
  std::vector<Recompute> recompute_;
};

}  // namespace autocfg
