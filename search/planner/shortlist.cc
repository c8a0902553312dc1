#include "search/planner/shortlist.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <queue>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

constexpr std::size_t kFirstTimed = 64, kMostTimed = 256;
constexpr std::size_t kSettled = 16;
constexpr std::int64_t kMostTimedActions = 1'500'000;

// Returns the assumed cost of timing a plan, regardless of what the timer skips: the actions of one pipeline.
std::int64_t TimedActions(const Workload& workload, const ParallelPlan& plan) {
  return plan.pp * (6 * MicrobatchCount(workload, plan) * plan.virtual_stages + 5);
}

absl::Status Look(const PlanningWatch& watch, const FeasiblePlans& feasible) {
  const PlanningProgress progress{.enumerated = feasible.enumerated,
                                  .fit = static_cast<std::int64_t>(feasible.plans.size())};
  return watch && !watch(progress) ? PlanningStopped(progress) : absl::OkStatus();
}

// Returns where lists of plans that one thread estimates begin, and the end of the last one. Plans of one
// mesh are in one list, since their costs have much in common.
std::vector<std::size_t> Lists(const std::vector<FeasiblePlan>& plans) {
  constexpr std::size_t kLeast = 256;
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 1; i < plans.size(); ++i) {
    const CompactPlan &plan = plans[i].plan, &before = plans[i - 1].plan;
    const bool same = plan.tp == before.tp && plan.pp == before.pp && plan.dp == before.dp &&
                      plan.micro_batch == before.micro_batch;
    if (!same && i - begins.back() >= kLeast) begins.push_back(i);
  }
  begins.push_back(plans.size());
  return begins;
}

// Sets the times of all plans by the closed form, or by the timer where it is not close.
absl::Status EstimateTimes(CostModel& costs, FeasiblePlans& feasible, const PlanningWatch& watch,
                           const base::TaskThreads& threads) {
  std::vector<FeasiblePlan>& plans = feasible.plans;
  const std::vector<std::size_t> begins = Lists(plans);
  const std::size_t lists = begins.size() - 1;
  std::vector<CostModel> copies;  // of the threads that are started
  const std::size_t started = std::min(static_cast<std::size_t>(std::max(1, threads.count)), lists) - 1;
  copies.reserve(started);
  for (std::size_t i = 0; i < started; ++i) copies.push_back(costs);
  std::vector<std::optional<std::size_t>> untimed(lists);  // the first plan of each list without a time
  absl::Status looked;                                     // of the calling thread
  const auto goes_on = [&] {
    looked = Look(watch, feasible);
    return looked.ok();
  };
  base::OrderedTasks tasks;
  tasks.count = lists;
  tasks.run = [&](std::size_t thread, std::size_t list, const std::atomic<bool>& stop) {
    CostModel& own = thread == 0 ? costs : copies[thread - 1];
    WatchPace pace;
    for (std::size_t i = begins[list]; i < begins[list + 1]; ++i) {
      const ParallelPlan plan = feasible.PlanAt(i);
      if (pace.Due(plan) && (stop || (thread == 0 && !goes_on()))) return false;
      plans[i].step_time_s = own.EstimatedSeconds(plan, own.host_op_s());
      if (std::isfinite(plans[i].step_time_s) && plans[i].step_time_s > 0) continue;
      untimed[list] = i;
      break;
    }
    return true;
  };
  std::optional<std::size_t> first_untimed;
  tasks.done = [&](std::size_t list) {
    first_untimed = untimed[list];
    return looked.ok() && !first_untimed;
  };
  tasks.goes_on = goes_on;
  base::RunInOrder(tasks, threads);
  if (!looked.ok()) return looked;
  if (!first_untimed) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("the calibration gives no time for plan {}; run it again",
                                                PlanText(feasible.PlanAt(*first_untimed))));
}

class Timings {
 public:
  Timings(CostModel& costs, FeasiblePlans& feasible, TimedPlans& timed, const PlanningWatch& watch)
      : costs_(costs), feasible_(feasible), timed_(timed), watch_(watch) {}

  bool full() const { return timed_.size() >= kMostTimed; }

  // Times plan `i`, unless it is timed already or the budget is used up.
  absl::Status Add(std::size_t i) {
    if (full() || timed_.contains(i)) return absl::OkStatus();
    const ParallelPlan plan = feasible_.PlanAt(i);
    const std::int64_t actions = TimedActions(costs_.workload(), plan);
    if (actions > kMostTimedActions - actions_) return absl::OkStatus();
    actions_ += actions;
    if (absl::Status status = Look(watch_, feasible_); !status.ok()) return status;
    try {
      const Prediction& p = timed_[i] = costs_.Predict(plan);
      feasible_.plans[i].step_time_s = p.step_time_s;
    } catch (const std::logic_error& error) {
      return absl::InternalError(fmt::format("plan {}: {}", PlanText(plan), error.what()));
    }
    return absl::OkStatus();
  }

 private:
  CostModel& costs_;
  FeasiblePlans& feasible_;
  TimedPlans& timed_;
  const PlanningWatch& watch_;
  std::int64_t actions_ = 0;
};

}  // namespace

void Scale(Prediction& p, double factor) {
  p.breakdown.Scale(factor);
  if (p.hidden_comm_s) *p.hidden_comm_s *= factor;
  p.step_time_s *= factor;
  p.step_time_low_s = p.step_time_high_s = p.step_time_s;
}

absl::StatusOr<TimedPlans> PredictTimes(CostModel& costs, FeasiblePlans& feasible, const PlanningWatch& watch,
                                        const base::TaskThreads& threads) {
  std::vector<FeasiblePlan>& plans = feasible.plans;
  if (absl::Status status = EstimateTimes(costs, feasible, watch, threads); !status.ok()) return status;
  // Only plans with the least recompute that fits are considered here. If two of them differ only in
  // scatter_gather, the slower one goes to `slower`, with its faster twin and their time ratio. All others go
  // to `least`.
  struct Slower {
    std::size_t plan, faster;
    double ratio;
  };
  std::vector<std::size_t> least;
  std::vector<Slower> slower;
  std::vector<bool> is_slower(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].less_work != kNoPlan || plans[i].sends_whole == kNoPlan) continue;
    std::size_t slow = i, fast = static_cast<std::size_t>(plans[i].sends_whole);
    if (plans[fast].less_work != kNoPlan) continue;
    if (plans[slow].step_time_s < plans[fast].step_time_s) std::swap(slow, fast);
    slower.push_back({slow, fast, plans[slow].step_time_s / plans[fast].step_time_s});
    is_slower[slow] = true;
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].less_work == kNoPlan && !is_slower[i]) least.push_back(i);
  }

  TimedPlans timed;
  Timings timings(costs, feasible, timed, watch);
  std::vector<std::pair<double, std::size_t>> by_closed_form;
  by_closed_form.reserve(least.size());
  for (const std::size_t i : least) by_closed_form.emplace_back(plans[i].step_time_s, i);
  std::sort(by_closed_form.begin(), by_closed_form.end());
  for (std::size_t n = 0; n < std::min(kFirstTimed, by_closed_form.size()); ++n) {
    if (absl::Status status = timings.Add(by_closed_form[n].second); !status.ok()) return status;
  }
  // Always times the fastest plan that is not timed yet.
  std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>,
                      std::greater<>>
      fastest;
  for (const std::size_t i : least) fastest.emplace(plans[i].step_time_s, i);
  for (std::size_t settled = 0; settled < kSettled && !fastest.empty() && !timings.full();) {
    const auto [seconds, i] = fastest.top();
    fastest.pop();
    if (timed.contains(i)) {
      ++settled;
      continue;
    }
    if (absl::Status status = timings.Add(i); !status.ok()) return status;
    if (timed.contains(i)) {
      fastest.emplace(plans[i].step_time_s, i);
    } else {
      ++settled;  // the program is too large; the closed form is kept
    }
  }

  // Ratio of timed to closed-form time of the plan with the least recompute.
  std::vector<float> factor(plans.size(), 1);
  for (const auto& [seconds, i] : by_closed_form)
    factor[i] = static_cast<float>(plans[i].step_time_s / seconds);
  for (const Slower& s : slower) {
    factor[s.plan] = factor[s.faster];
    plans[s.plan].step_time_s = s.ratio * plans[s.faster].step_time_s;
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].less_work == kNoPlan) continue;
    factor[i] = factor[static_cast<std::size_t>(plans[i].less_work)];
    plans[i].step_time_s *= factor[i];
  }
  return timed;
}

Prediction PredictionOf(CostModel& costs, const FeasiblePlans& feasible, const TimedPlans& timed,
                        std::size_t i) {
  if (const auto it = timed.find(i); it != timed.end()) return it->second;
  Prediction p = costs.Estimate(feasible.PlanAt(i));
  if (p.step_time_s != feasible.plans[i].step_time_s) Scale(p, feasible.plans[i].step_time_s / p.step_time_s);
  return p;
}

}  // namespace autocfg
