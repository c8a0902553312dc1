#include "search/planner/rejected_plans.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/frameworks/framework_rules.h"
#include "search/plan/legality.h"
#include "search/planner/feasible_plans.h"

namespace autocfg {
namespace {

constexpr std::string_view kOutOfMemory = "out_of_memory";

std::string IllegalDetail(const CostModel& costs, const ParallelPlan& plan, IllegalReason reason) {
  const std::int64_t ranks = RankCount(costs.cluster());
  if (reason == IllegalReason::kRanksNotDivisible) {
    const auto unusable =
        std::find_if(kAxes.begin(), kAxes.end(), [&](const AxisRow& row) { return plan.*row.size > 1; });
    const std::string_view name = unusable->name;
    return fmt::format(
        "{}={} does not divide the {} ranks, and a search uses all of them; give a {} that divides {}", name,
        RankCount(plan), ranks, name, ranks);
  }
  if (reason == IllegalReason::kNotExpressible) {
    const std::string& framework = costs.cluster().engine.name;
    return fmt::format("{} cannot express {}", framework,
                       WhyNotExpressible(FrameworkRules(framework), {costs.problem().With(plan), ranks}));
  }
  return ExplainIllegality(costs.problem().With(plan), ranks)->detail;
}

std::string OutOfMemoryDetail(const CostModel& costs, const ParallelPlan& plan) {
  const Prediction memory = costs.PredictMemory(plan);
  return fmt::format("needs {} bytes of memory, and {} are available", memory.memory.Total(),
                     costs.UsableBytes());
}

}  // namespace

absl::StatusOr<std::map<std::string, std::int64_t>> ForEachRejected(
    const SearchSpace& space, CostModel& costs, const PlanningBudget& budget, std::int64_t most,
    const std::function<bool(const RejectedPlan&)>& visit, const PlanningWatch& watch) {
  std::map<std::string, std::int64_t> visited;
  std::int64_t count = 0;
  bool wanted = true;
  const auto rejected = [&](const ParallelPlan& plan, std::optional<IllegalReason> reason) {
    if (!wanted || count >= most) return false;  // two passes over the space ask
    ++count;
    const std::string name(reason ? Name(*reason) : kOutOfMemory);
    ++visited[name];
    wanted = visit({.plan = plan,
                    .reason = name,
                    .detail = reason ? IllegalDetail(costs, plan, *reason) : OutOfMemoryDetail(costs, plan)});
    return wanted && count < most;
  };
  const auto goes_on = [&](const PlanningProgress& progress) {
    return wanted && (!watch || watch(progress));
  };
  AUTOCFG_ASSIGN_OR_RETURN(
      const FeasiblePlans found,
      FindFeasiblePlans(space, costs, costs.UsableArenaBytes(), budget, goes_on, rejected));
  if (!wanted) return PlanningStopped({.enumerated = found.enumerated});
  std::map<std::string, std::int64_t> left;
  for (int i = 0; i < kIllegalReasonCount; ++i) {
    const std::string name(Name(static_cast<IllegalReason>(i)));
    const std::int64_t more = found.illegal[static_cast<std::size_t>(i)] - visited[name];
    if (more > 0) left[name] = more;
  }
  const std::string memory(kOutOfMemory);
  if (const std::int64_t more = found.out_of_memory - visited[memory]; more > 0) left[memory] = more;
  return left;
}

}  // namespace autocfg
