// What planning may cost: how many plans a search goes through, how much memory they take, and who may stop
// it. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// How far planning has come.
struct PlanningProgress {
  std::int64_t enumerated = 0;  // plans gone through, illegal ones included
  std::int64_t fit = 0;         // of these, the plans that fit in memory
};

// Decides whether planning goes on. Asked every few milliseconds. An empty function lets it go on.
using PlanningWatch = std::function<bool(const PlanningProgress&)>;

// The error of planning whose watch said no: Cancelled, with how far it came.
absl::Status PlanningStopped(const PlanningProgress& progress);

// Says when a pass over plans asks its watch: every 256 plans, or sooner if they have many stages, since the
// work on a plan grows with its stages.
class WatchPace {
 public:
  // Counts so many plans with as many stages as this one. Returns whether to ask before them: at the first
  // plan, then every few milliseconds.
  bool Due(const ParallelPlan& plan, std::size_t plans = 1) {
    const bool due = work_ >= kWorkPerLook;
    if (due) work_ = 0;
    work_ += static_cast<std::int64_t>(plans) * (kWorkPerPlan + StageCount(plan));
    return due;
  }

 private:
  static constexpr std::int64_t kWorkPerPlan = 1024;  // in stages
  static constexpr std::int64_t kWorkPerLook = 256 * kWorkPerPlan;
  std::int64_t work_ = kWorkPerLook;
};

// The most that planning takes: a space with more plans is cut off. The default space of GPT-3 175B on 512
// ranks has 156,000 legal plans.
struct PlanningBudget {
  std::int64_t plans = 4'000'000;             // legal plans of a model of up to kPlainLayers layers
  std::int64_t cases = 20'000'000;            // combinations of everything but derived options
  std::size_t bytes = std::size_t{40} << 20;  // memory of the plans that fit (FeasiblePlans::Bytes)

  // Returns how many legal plans of a model are gone through: a plan takes time with its stages, of which a
  // model may have as many as layers.
  static constexpr std::int64_t kPlainLayers = 128;
  std::int64_t PlansOf(std::int64_t layers) const {
    return layers <= kPlainLayers ? plans : std::max<std::int64_t>(1, plans / (layers / kPlainLayers + 1));
  }
};

}  // namespace autocfg
