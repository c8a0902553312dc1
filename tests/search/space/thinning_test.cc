// Spaces that leave out values of full:K to become small enough (SearchSpace::ThinRecompute).
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "search/plan/plan_text.h"
#include "search/space/search_space.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Batch;
using test::Legal;
using test::Model;

// The plan without its choice of recompute.
ParallelPlan CaseOf(ParallelPlan plan) {
  plan.recompute = Recompute::kNone;
  plan.recompute_layers = 0;
  return plan;
}

TEST(SearchSpace, ThinningKeepsEveryCaseAndEvenlySpacedK) {
  constexpr std::int64_t kMany = 1'000'000;
  const auto space = SearchSpace::Create(Model(96), Batch(8), 8, {});
  ASSERT_TRUE(space.ok()) << space.status();
  const std::vector<ParallelPlan> all = Legal(*space);
  std::set<ParallelPlan> cases;
  for (const ParallelPlan& plan : all) cases.insert(CaseOf(plan));
  const auto size = static_cast<std::int64_t>(all.size());
  std::int64_t previous_step = 1;
  for (const std::int64_t most : {size * 2, size / 2, size / 3, size / 4}) {
    SearchSpace thin = *space;
    ASSERT_TRUE(thin.ThinRecompute(most, kMany));
    const std::int64_t step = thin.RecomputeStep();
    EXPECT_GE(step, previous_step);
    previous_step = step;
    std::set<ParallelPlan> kept_cases;
    std::vector<ParallelPlan> expected;
    for (const ParallelPlan& plan : all) {
      if (plan.recompute_layers % step == 0) expected.push_back(plan);
    }
    const std::vector<ParallelPlan> kept = Legal(thin);
    EXPECT_EQ(kept, expected) << "full:K in steps of " << step;
    for (const ParallelPlan& plan : kept) kept_cases.insert(CaseOf(plan));
    EXPECT_EQ(kept_cases, cases);
    EXPECT_LE(static_cast<std::int64_t>(kept.size()), most);
    if (most >= size) {
      EXPECT_EQ(step, 1);
    }
  }
  EXPECT_GT(previous_step, 2);
}

TEST(SearchSpace, ThinningEndsAtNoneAndFull) {
  for (const auto& [most, most_cases] : {std::pair(std::int64_t{1}, std::int64_t{1'000'000}),
                                         std::pair(std::int64_t{1'000'000}, std::int64_t{1})}) {
    // More cases than one look at them.
    auto space = SearchSpace::Create(Model(24), Batch(720), 64, {});
    ASSERT_TRUE(space.ok()) << space.status();
    ASSERT_TRUE(space->ThinRecompute(most, most_cases));
    EXPECT_EQ(space->RecomputeStep(), 24);
    for (const ParallelPlan& plan : Legal(*space)) ASSERT_EQ(plan.recompute_layers, 0) << PlanText(plan);
  }
}

TEST(SearchSpace, ThinningLeavesNamedValues) {
  auto space = SearchSpace::Create(Model(24), Batch(8), 8, {{"recompute", {"none", "full:1", "full:5"}}});
  ASSERT_TRUE(space.ok()) << space.status();
  const std::vector<ParallelPlan> before = Legal(*space);
  ASSERT_TRUE(space->ThinRecompute(1, 1'000'000));
  EXPECT_EQ(Legal(*space), before);
}

}  // namespace
}  // namespace autocfg
