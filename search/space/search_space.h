// The plans of a search: bounds per axis, enumerated lazily in a fixed order. Immutable, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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
  // Axes: tp, pp, dp, mbs (or micro_batch), schedule, recompute. Axes not named take every value: tp, pp, dp the divisors of `ranks`, mbs the
  // divisors of the global batch, schedule gpipe and 1f1b, recompute none and full. InvalidArgument names an unknown axis (with the nearest
  // names), an axis named twice, a value that it does not take, or sizes none of which make up `ranks` (a size that does not divide them beside ones
  // that do is counted as illegal, ranks_not_divisible, so that one space serves clusters of any size); Unimplemented an axis or value that the
  // engine does not run yet (the default value alone of such an axis is accepted).
  static absl::StatusOr<SearchSpace> Create(const ModelSpec& model, const Workload& workload, std::int64_t ranks,
                                            const AxisValues& values);

  struct Counts {
    std::int64_t enumerated = 0;
    std::array<std::int64_t, kIllegalReasonCount> illegal{};
  };

  // Calls `visit` for every legal plan of the space in canonical form, each once, until it returns false; counts the others by reason.
  // Uses all ranks: tp*pp*dp == ranks. Order: tp, pp, mbs ascending, gpipe before 1f1b, none before full; the last changes fastest.
  // `enumerated` counts legal and illegal ones.
  Counts ForEachLegal(const std::function<bool(const ParallelPlan&)>& visit) const;

 private:
  absl::Status SetAxis(std::string_view name, const std::vector<std::string>& values);
  void MoveAsideUnusable(std::vector<std::int64_t>& sizes);

  ModelSpec model_;
  Workload workload_;
  std::int64_t ranks_ = 1;
  std::int64_t unusable_sizes_ = 0;  // values of tp, pp, dp that divide no layout of all ranks
  std::vector<std::int64_t> tp_, pp_, dp_, micro_batch_;  // ascending
  std::vector<Schedule> schedules_;
  std::vector<Recompute> recompute_;
};

}  // namespace autocfg
