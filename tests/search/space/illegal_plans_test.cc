// Plans that a space leaves out as illegal: their counts by reason, and visits to each of them.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "search/space/search_space.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Batch;
using test::IllegalCount;
using test::Legal;
using test::Model;
using ::testing::ElementsAre;

TEST(SearchSpace, IllegalByReason) {
  const auto space = SearchSpace::Create(Model(3, 2), Batch(2), 4,
                                         {{"recompute", {"none"}},
                                          {"schedule", {"1f1b"}},
                                          {"split", {"even"}},
                                          {"sp", {"0"}},
                                          {"zero", {"0"}},
                                          {"p2p_overlap", {"0"}},
                                          {"scatter_gather", {"0"}}});
  ASSERT_TRUE(space.ok());
  SearchSpace::Counts counts;
  EXPECT_EQ(Legal(*space, &counts).size(), 1u);  // tp=2, dp=2, mbs=1
  EXPECT_EQ(counts.enumerated, 12);              // six layouts, two micro batches
  const auto count = [&](IllegalReason reason) { return counts.illegal[static_cast<std::size_t>(reason)]; };
  EXPECT_EQ(count(IllegalReason::kLayersNotDivisible), 6);  // pp of 2 or 4
  EXPECT_EQ(count(IllegalReason::kHeadsNotDivisible), 2);   // tp=4
  EXPECT_EQ(count(IllegalReason::kBatchNotDivisible), 3);   // dp=4 twice; dp=2 with mbs=2
}

TEST(SearchSpace, MicrobatchesOfInterleavedAreMultiplesOfPp) {
  const auto space = SearchSpace::Create(Model(8), Batch(6), 4,
                                         {{"pp", {"4"}},
                                          {"mbs", {"1"}},
                                          {"recompute", {"none"}},
                                          {"schedule", {"interleaved"}},
                                          {"p2p_overlap", {"0"}},
                                          {"split", {"even"}}});
  ASSERT_TRUE(space.ok()) << space.status();
  SearchSpace::Counts counts;
  EXPECT_TRUE(Legal(*space, &counts).empty());
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kMicrobatchesNotMultipleOfStages)], 1);
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kLayersNotDivisible)], 2)
      << "vpp of 4 and 8";
}

TEST(SearchSpace, MicroBatchesThatDoNotDivideAreNamed) {
  const auto space = SearchSpace::Create(Model(), Batch(8), 1, {{"mbs", {"3", "16", "2147483647"}}});
  ASSERT_TRUE(space.ok());
  SearchSpace::Counts counts;
  EXPECT_TRUE(Legal(*space, &counts).empty());
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kBatchNotDivisible)], counts.enumerated);
}

TEST(SearchSpace, SizesThatDoNotDivideTheRanksAreCountedOnce) {
  const auto space =
      SearchSpace::Create(Model(), Batch(8), 4, {{"tp", {"1", "2", "3", "8"}}, {"pp", {"1", "16"}}});
  ASSERT_TRUE(space.ok()) << space.status();
  SearchSpace::Counts counts;
  const std::vector<ParallelPlan> plans = Legal(*space, &counts);
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kRanksNotDivisible)], 3);
  std::int64_t illegal = 0;
  for (const std::int64_t count : counts.illegal) illegal += count;
  EXPECT_EQ(counts.enumerated, illegal + static_cast<std::int64_t>(plans.size()));
  std::set<std::int64_t> sizes;
  for (const ParallelPlan& plan : plans) sizes.insert(plan.tp);
  EXPECT_THAT(sizes, ElementsAre(1, 2));
}

// Illegal plans are counted many at once, or visited one by one, each once, with the rule that it breaks.
TEST(SearchSpace, VisitsIllegalPlansIfAsked) {
  const ModelSpec model = Model(6, 6);
  const Workload workload = Batch(12);
  for (const AxisValues& values :
       {AxisValues{},
        AxisValues{{"sp", {"0"}}, {"zero", {"0"}}, {"p2p_overlap", {"0"}}, {"scatter_gather", {"0"}}},
        AxisValues{{"split", {"even", "auto", "4+2", "9+9"}}, {"recompute", {"none", "full:3"}}}}) {
    const auto space = SearchSpace::Create(model, workload, 8, values);
    ASSERT_TRUE(space.ok()) << space.status();
    SearchSpace::Counts counted;
    const std::vector<ParallelPlan> legal = Legal(*space, &counted);
    ASSERT_GT(IllegalCount(counted), 20);
    for (const std::int64_t most : {IllegalCount(counted) + 1, std::int64_t{7}}) {
      std::set<ParallelPlan> illegal;
      std::int64_t visited = 0, legal_visited = 0;
      const SearchSpace::Counts found = space->ForEachLegal(
          [&](const ParallelPlan& plan) {
            EXPECT_EQ(plan, legal[static_cast<std::size_t>(legal_visited)]);
            ++legal_visited;
            return true;
          },
          {},
          [&](const ParallelPlan& plan, IllegalReason reason) {
            EXPECT_EQ(FindIllegality({model, workload, plan}, 8), reason) << PlanText(plan);
            EXPECT_TRUE(illegal.insert(plan).second) << "twice: " << PlanText(plan);
            return ++visited < most;
          });
      EXPECT_EQ(visited, std::min(most, IllegalCount(counted)));
      EXPECT_EQ(legal_visited, static_cast<std::int64_t>(legal.size()));
      EXPECT_EQ(found.illegal, counted.illegal);
      EXPECT_EQ(found.enumerated, counted.enumerated);
    }
  }
}

}  // namespace
}  // namespace autocfg
