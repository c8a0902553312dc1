// What planning may cost: how many plans a search goes through, how much memory they take, and who may stop
// it. Plain values.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace autocfg {

// How far planning has come.
struct PlanningProgress {
  std::int64_t enumerated = 0;  // plans gone through, illegal ones included
  std::int64_t fit = 0;         // of these, the plans that fit in memory
};

// Decides whether planning goes on. Asked on the thread that plans, every few milliseconds. An empty function
// lets it go on.
using PlanningWatch = std::function<bool(const PlanningProgress&)>;

// The error of planning whose watch said no: Cancelled, with how far it came.
absl::Status PlanningStopped(const PlanningProgress& progress);

// The most that planning takes. A space with more plans than that is first thinned
// (SearchSpace::ThinRecompute), then cut off. The largest models on the largest clusters have some 60,000
// legal plans by default; this many take some ten seconds and 100 MB.
struct PlanningBudget {
  std::int64_t plans = 250'000;               // legal plans
  std::int64_t cases = 20'000'000;            // combinations of everything but recompute
  std::size_t bytes = std::size_t{64} << 20;  // memory of the plans that fit
};

}  // namespace autocfg
