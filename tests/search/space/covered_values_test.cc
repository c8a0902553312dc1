// Which plans with and without overlap a space has, and which are left out because others cover them.
#include <algorithm>
#include <compare>
#include <cstdint>
#include <ostream>
#include <set>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "search/space/search_space.h"

namespace autocfg {
namespace {

using ::testing::UnorderedElementsAre;

// On 8 ranks there are plans with each mesh, zero stage and schedule.
std::vector<ParallelPlan> PlansOfSpace(const AxisValues& values, bool hides) {
  ModelSpec model{.layers = 4, .hidden = 128, .heads = 4, .vocab = 1000};
  FillDefaults(model);
  const Workload workload{.global_batch = 8, .seq_len = 64, .precision = {}};
  const auto space = SearchSpace::Create(model, workload, 8, values, {.hides_collectives = hides});
  EXPECT_TRUE(space.ok()) << space.status();
  std::vector<ParallelPlan> plans;
  space->ForEachLegal([&plans](const ParallelPlan& plan) {
    plans.push_back(plan);
    return true;
  });
  return plans;
}

bool HasCoveredValue(const PlanOption& option, const ParallelPlan& plan) {
  return option.covered != nullptr && option.covered(plan);
}
bool HasCoveredValue(const ParallelPlan& plan) {
  const PlanOptionTable options = PlanOptions();
  return std::any_of(options.begin(), options.end(),
                     [&](const PlanOption& option) { return HasCoveredValue(option, plan); });
}

// zero, grad_overlap and param_overlap.
struct StateValues {
  std::int64_t zero;
  bool gradients, parameters;
  auto operator<=>(const StateValues&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};
void PrintTo(const StateValues& values, std::ostream* out) {
  *out << "zero=" << values.zero << ",grad_overlap=" << values.gradients
       << ",param_overlap=" << values.parameters;
}

std::set<StateValues> ValuesWithDataAxis(const std::vector<ParallelPlan>& plans) {
  std::set<StateValues> values;
  for (const ParallelPlan& plan : plans) {
    if (plan.dp > 1) values.insert({plan.zero_stage, plan.grad_overlap, plan.param_overlap});
  }
  return values;
}

TEST(CoveredValues, OptionsThatHaveSome) {
  std::vector<std::string_view> names;
  for (const PlanOption& option : PlanOptions()) {
    if (option.covered != nullptr) names.push_back(option.name);
  }
  EXPECT_THAT(names, UnorderedElementsAre("grad_overlap", "param_overlap"));
}

// What each rank keeps whole is always overlapped once its states are sharded; what is sharded needs buffers
// for it, so that both values stay.
TEST(CoveredValues, AreLeftOutByDefault) {
  const std::vector<ParallelPlan> plans = PlansOfSpace({}, true);
  for (const ParallelPlan& plan : plans) ASSERT_FALSE(HasCoveredValue(plan)) << PlanText(plan);
  EXPECT_THAT(ValuesWithDataAxis(plans),
              UnorderedElementsAre(
                  StateValues{0, false, false}, StateValues{0, true, false}, StateValues{1, true, true},  //
                  StateValues{2, false, true}, StateValues{2, true, true}, StateValues{3, false, false},
                  StateValues{3, true, false}, StateValues{3, false, true}, StateValues{3, true, true}));
  for (const ParallelPlan& plan : plans) {
    if (plan.dp == 1) {
      ASSERT_FALSE(plan.grad_overlap || plan.param_overlap) << PlanText(plan);
    }
  }
}

// Every plan that is left out has its counterpart in the space.
TEST(CoveredValues, CoverTheSameLayouts) {
  const std::vector<ParallelPlan> some = PlansOfSpace({}, true);
  const std::set<ParallelPlan> kept(some.begin(), some.end());
  EXPECT_EQ(kept.size(), some.size());
  const std::vector<ParallelPlan> all =
      PlansOfSpace({{"grad_overlap", {"0", "1"}}, {"param_overlap", {"0", "1"}}}, true);
  std::size_t covered = 0;
  for (ParallelPlan plan : all) {
    if (HasCoveredValue(plan)) {
      ++covered;
      ASSERT_FALSE(kept.contains(plan)) << PlanText(plan);
      if (HasCoveredValue(*FindPlanOption("grad_overlap"), plan)) plan.grad_overlap = true;
      if (HasCoveredValue(*FindPlanOption("param_overlap"), plan)) plan.param_overlap = true;
    }
    ASSERT_TRUE(kept.contains(plan)) << PlanText(plan);
  }
  EXPECT_GT(covered, 100u);
  EXPECT_EQ(all.size(), kept.size() + covered);
}

// A named axis has all of its values; the other one still leaves out those that are covered.
TEST(CoveredValues, ComeBackWhereTheAxisIsNamed) {
  for (const char* name : {"grad_overlap", "param_overlap"}) {
    SCOPED_TRACE(name);
    const PlanOption& named = *FindPlanOption(name);
    std::size_t covered = 0;
    const std::vector<ParallelPlan> plans = PlansOfSpace({{name, {"0", "1"}}}, true);
    for (const ParallelPlan& plan : plans) {
      covered += HasCoveredValue(named, plan) ? 1 : 0;
      for (const PlanOption& option : PlanOptions()) {
        if (option.name == named.name) continue;
        ASSERT_FALSE(HasCoveredValue(option, plan)) << option.name << " of " << PlanText(plan);
      }
    }
    EXPECT_GT(covered, 50u);
    for (const ParallelPlan& plan : PlansOfSpace({{name, {"0"}}}, true))
      ASSERT_TRUE(named.equal(plan, ParallelPlan())) << PlanText(plan);
  }
}

// Where collectives do not run beside computes, overlap is in the space only if it is named.
TEST(CoveredValues, AreAllThatThereIsWithoutHiding) {
  const std::vector<ParallelPlan> plans = PlansOfSpace({}, false);
  EXPECT_THAT(ValuesWithDataAxis(plans),
              UnorderedElementsAre(StateValues{0, false, false}, StateValues{1, false, false},
                                   StateValues{2, false, false}, StateValues{3, false, false}));
  const std::vector<ParallelPlan> named = PlansOfSpace({{"grad_overlap", {"0", "1"}}}, false);
  EXPECT_EQ(ValuesWithDataAxis(named).size(), 8u);
  std::set<ParallelPlan> both(named.begin(), named.end());
  for (const ParallelPlan& plan : plans) ASSERT_TRUE(both.contains(plan)) << PlanText(plan);
}

}  // namespace
}  // namespace autocfg
