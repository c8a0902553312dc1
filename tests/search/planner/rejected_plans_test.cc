#include "search/planner/rejected_plans.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "search/planner/search_loop.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::SmallGpt;
using testing::HasSubstr;
using ReasonCounts = std::map<std::string, std::int64_t>;

struct RejectingSearch : Problem {
  RejectingSearch() : Problem{SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)} {}
  AxisValues space = {};
  SearchOptions options = {.predict_only = true};

  // Returns the counts of a search.
  SearchCounts Search() const {
    auto loop = SearchLoop::Create(*this, space, options);
    EXPECT_TRUE(loop.ok()) << loop.status();
    EXPECT_TRUE(loop->SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
    return loop->counts();
  }
  absl::StatusOr<ReasonCounts> Rejected(std::int64_t most,
                                        const std::function<bool(const RejectedPlan&)>& visit) const {
    CostModel costs(*this, std::make_shared<const NominalTimes>(), 0, options.memory_margin);
    return ForEachRejected(*PlannedSpace(*this, space, options), costs, options.budget, most, visit);
  }
};

const AxisValues kEveryDepth = {{"recompute", {"none", "full:*"}}};

// A margin of a tenth, and memory for half of the plans, each depth of recompute being one.
RejectingSearch HalfFits() {
  RejectingSearch search;
  auto loop = SearchLoop::Create(search, kEveryDepth, search.options);
  EXPECT_TRUE(loop.ok()) << loop.status();
  std::vector<std::int64_t> bytes;
  for (const RankedPlan& r : loop->Ranking(1'000'000)) bytes.push_back(r.predicted.memory.Total());
  std::sort(bytes.begin(), bytes.end());
  search.options.memory_margin = 0.1;
  search.cluster.groups.front().device.memory_bytes = bytes[bytes.size() / 2] * 10 / 9;
  return search;
}

TEST(RejectedPlans, AreThoseThatASearchCounts) {
  for (const AxisValues& space :
       {AxisValues{}, AxisValues{{"tp", {"1", "3", "5", "8", "2"}}, {"split", {"auto"}}},
        AxisValues{{"dp", {"1", "7"}}, {"split", {"even", "7+5", "6+6"}}, {"zero", {"0", "2"}}}}) {
    RejectingSearch problem = HalfFits();
    problem.space = space;
    problem.space.push_back(kEveryDepth.front());
    ReasonCounts seen;
    const auto left = problem.Rejected(1'000'000, [&](const RejectedPlan& rejected) {
      ++seen[rejected.reason];
      return true;
    });
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_TRUE(left->empty());
    const SearchCounts counts = problem.Search();
    EXPECT_EQ(seen, counts.rejected);
    EXPECT_GT(counts.out_of_memory, 0);
    EXPECT_GT(counts.predicted, 0);
  }
}

TEST(RejectedPlans, EachBreaksTheRuleThatItIsRejectedFor) {
  const RejectingSearch problem = HalfFits();
  const std::int64_t usable = UsableBytes(MemoryCapacity(problem.cluster), problem.options.memory_margin);
  std::set<std::string> reasons;
  const auto left = problem.Rejected(1'000'000, [&](const RejectedPlan& rejected) {
    const auto broken = FindIllegality({problem.model, problem.workload, rejected.plan}, 8);
    EXPECT_EQ(rejected.reason, broken ? Name(*broken) : "out_of_memory") << PlanText(rejected.plan);
    EXPECT_EQ(RankCount(rejected.plan), 8);
    EXPECT_EQ(rejected.detail.find('\n'), std::string::npos);
    if (!broken) {
      EXPECT_NE(rejected.plan.split, SplitMode::kAuto);
      EXPECT_THAT(rejected.detail, HasSubstr(fmt::format(" bytes of memory, and {} are available", usable)));
      EXPECT_GT(std::stoll(rejected.detail.substr(6)), usable) << rejected.detail;
    }
    reasons.insert(rejected.reason);
    return !testing::Test::HasFailure();
  });
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_GT(reasons.size(), 3u);
}

TEST(RejectedPlans, SizesThatDivideNothingComeFirst) {
  RejectingSearch problem;
  problem.space = {{"tp", {"1", "3"}}, {"pp", {"1", "8", "5"}}};
  std::vector<RejectedPlan> first;
  ASSERT_TRUE(problem
                  .Rejected(2,
                            [&](const RejectedPlan& rejected) {
                              first.push_back(rejected);
                              return true;
                            })
                  .ok());
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].plan, ParallelPlan({.tp = 3}));
  EXPECT_EQ(first[1].plan, ParallelPlan({.pp = 5}));
  EXPECT_EQ(first[1].reason, "ranks_not_divisible");
  EXPECT_EQ(first[1].detail,
            "pp=5 does not divide the 8 ranks, and a search uses all of them; give a pp that divides 8");
}

TEST(RejectedPlans, BeyondTheLimitAreCounted) {
  const RejectingSearch problem = HalfFits();
  const ReasonCounts all = problem.Search().rejected;
  for (const std::int64_t most : {std::int64_t{0}, std::int64_t{1}, std::int64_t{300}}) {
    ReasonCounts seen;
    std::int64_t count = 0;
    auto left = problem.Rejected(most, [&](const RejectedPlan& rejected) {
      ++seen[rejected.reason];
      ++count;
      return true;
    });
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_EQ(count, most);
    for (const auto& [reason, number] : seen) (*left)[reason] += number;
    EXPECT_EQ(*left, all);
  }
}

TEST(RejectedPlans, EndOnceTheVisitorSaysNo) {
  std::int64_t count = 0;
  const auto left = HalfFits().Rejected(1000, [&](const RejectedPlan&) { return ++count < 3; });
  EXPECT_TRUE(absl::IsCancelled(left.status())) << left.status();
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace autocfg
