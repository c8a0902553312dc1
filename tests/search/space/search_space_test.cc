// The plans of a space that names few values or none: their order, the values that are searched by default,
// and visits that end early.
#include "search/space/search_space.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "search/plan/plan_text.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Batch;
using test::IllegalCount;
using test::Legal;
using test::Model;

TEST(SearchSpace, FixedOrder) {
  const auto space = SearchSpace::Create(Model(), Batch(4), 2,
                                         {{"tp", {"1"}},
                                          {"mbs", {"1"}},
                                          {"vpp", {"1", "2"}},
                                          {"recompute", {"none", "full:*"}},
                                          {"split", {"even", "auto"}},
                                          {"p2p_overlap", {"0", "1"}}});
  ASSERT_TRUE(space.ok());
  std::vector<std::string> texts;
  for (const ParallelPlan& plan : Legal(*space)) texts.push_back(PlanText(plan));
  std::vector<std::string> expected;
  for (const char* zero : {"", ",zero=1", ",zero=2", ",zero=3"}) {
    for (const char* recompute :
         {"", ",recompute=full:1", ",recompute=full:2", ",recompute=full:3", ",recompute=full"})
      expected.push_back(std::string("tp=1,pp=1,dp=2,mbs=1") + recompute + zero);
  }
  const auto expect_pipelines = [&](const std::string& schedule, const std::vector<std::string>& recomputes) {
    for (const char* split : {"", ",split=auto"}) {
      for (const char* overlap : {"", ",p2p_overlap=1"}) {
        for (const std::string& recompute : recomputes)
          expected.push_back(
              fmt::format("tp=1,pp=2,dp=1,mbs=1{}{}{}{}", schedule, split, recompute, overlap));
      }
    }
  };
  const std::vector<std::string> up_to_one = {"", ",recompute=full:1", ",recompute=full"};
  expect_pipelines(",schedule=gpipe", up_to_one);
  expect_pipelines("", up_to_one);
  expect_pipelines(",vpp=2", {"", ",recompute=full"});
  expect_pipelines(",schedule=zb-h1", up_to_one);
  EXPECT_EQ(texts, expected);
}

// Options that are derived unless they are named: a plan has all their values, the least recompute first.
TEST(SearchSpace, LeavesDerivedOptionsOpen) {
  using Depth = SearchSpace::RecomputeValue;
  const auto space = SearchSpace::Create(Model(6), Batch(8), 8, {});
  const auto every = SearchSpace::Create(Model(6), Batch(8), 8, test::EveryDerivedValue());
  ASSERT_TRUE(space.ok() && every.ok());
  std::int64_t count = 0;
  std::size_t most = 0;
  const auto each = [&](std::span<const SearchSpace::Alternative> alternatives) {
    ++count;
    most = std::max(most, alternatives.size());
    for (const auto& [open, depths, parts] : alternatives) {
      ParallelPlan same = open;
      for (const PlanOption& option : PlanOptions()) {
        if (option.derived) option.copy(alternatives.front().plan, same);
      }
      EXPECT_EQ(same, alternatives.front().plan) << "they differ in derived options alone";
      EXPECT_EQ(depths.front(), Depth{});
      EXPECT_EQ(depths.back(), (Depth{Recompute::kFull, 0}));
      if (open.split == SplitMode::kAuto) continue;  // to be resolved first
      ParallelPlan plan = open;
      for (std::size_t i = 0; i < depths.size(); ++i) {
        depths[i].SetIn(plan);
        const SearchSpace::Deeper deeper = space->DeeperThan(plan);
        EXPECT_TRUE(std::ranges::equal(depths.subspan(i + 1), deeper.depths)) << PlanText(plan);
        EXPECT_TRUE(std::ranges::equal(parts, deeper.parts)) << PlanText(plan);
      }
      for (const Depth& part : parts) {
        part.SetIn(plan);
        const SearchSpace::Deeper deeper = space->DeeperThan(plan);
        EXPECT_TRUE(std::ranges::equal(depths.subspan(1), deeper.depths)) << PlanText(plan);
        EXPECT_EQ(std::ranges::count(deeper.parts, part), 0);
        EXPECT_LT(deeper.parts.size(), parts.size());
      }
    }
  };
  const std::vector<ParallelPlan> open = test::AllAlternatives(*space, each);
  const std::vector<ParallelPlan> legal = Legal(*every);
  EXPECT_EQ(open.size(), legal.size());
  EXPECT_EQ(std::set<ParallelPlan>(open.begin(), open.end()),
            std::set<ParallelPlan>(legal.begin(), legal.end()));
  EXPECT_EQ(most, 8u) << "two splits, two ways of messages, two overlaps";
  SearchSpace::Counts counts;
  EXPECT_EQ(static_cast<std::int64_t>(Legal(*space, &counts).size()), count);
  EXPECT_EQ(counts.enumerated - IllegalCount(counts), count) << "a plan counts once";
  EXPECT_TRUE(every->DeeperThan(legal.front()).depths.empty());
  EXPECT_TRUE(every->DeeperThan(legal.front()).parts.empty());
}

// Depths of stages with many layers do not multiply the work of planning.
TEST(SearchSpace, BoundsTheDerivedDepths) {
  const auto space = SearchSpace::Create(Model(1000), Batch(1), 1, {});
  ASSERT_TRUE(space.ok());
  std::size_t most = 0;
  (void)test::AllAlternatives(*space, [&](std::span<const SearchSpace::Alternative> alternatives) {
    most = std::max(most, alternatives.front().depths.size());
  });
  EXPECT_EQ(most, 2u + 124u) << "none, full:8, full:16, ..., full:992, full";
}

TEST(SearchSpace, CutsProductsOnlyWhereThatHidesCollectives) {
  const auto chunks_in = [](const AxisValues& values, bool hides) {
    const auto space = SearchSpace::Create(Model(6, 4), Batch(2), 2, values, {.hides_collectives = hides});
    EXPECT_TRUE(space.ok()) << space.status();
    std::set<std::int64_t> whole, cut;  // at tp=1 and tp=2
    for (const ParallelPlan& plan : Legal(*space)) (plan.tp > 1 ? cut : whole).insert(plan.tp_overlap);
    EXPECT_EQ(whole, std::set<std::int64_t>{1});
    return cut;
  };
  EXPECT_EQ(chunks_in({}, true), (std::set<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(chunks_in({}, false), std::set<std::int64_t>{1});
  EXPECT_EQ(chunks_in({{"tp_overlap", {"1", "4"}}}, false), (std::set<std::int64_t>{1, 4}))
      << "if it is named";
}

// A search that names no values takes the better way of sending messages, where they differ.
TEST(SearchSpace, ScattersMessagesByDefault) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const auto space = SearchSpace::Create(Model(6, 4), Batch(24), ranks, {});
    ASSERT_TRUE(space.ok()) << space.status();
    const std::vector<ParallelPlan> all = test::AllAlternatives(*space);
    const auto scatters = std::count_if(all.begin(), all.end(), [](const ParallelPlan& plan) {
      EXPECT_TRUE(!plan.scatter_gather || (plan.tp > 1 && plan.pp > 1 && !plan.sequence_parallel))
          << PlanText(plan);
      return plan.scatter_gather;
    });
    EXPECT_EQ(scatters > 0, ranks >= 4) << ranks;
  }
}

TEST(SearchSpace, StopsWhenAsked) {
  const auto space = SearchSpace::Create(Model(), Batch(8), 8, {});
  ASSERT_TRUE(space.ok());
  int seen = 0;
  const auto counts = space->ForEachLegal([&seen](const ParallelPlan&) { return ++seen < 5; });
  EXPECT_EQ(seen, 5);
  EXPECT_LT(counts.enumerated, space->ForEachLegal([](const ParallelPlan&) { return true; }).enumerated);
}

TEST(SearchSpace, EndsWhenAskedTo) {
  auto space = SearchSpace::Create(Model(24), Batch(5040), 720, {});
  ASSERT_TRUE(space.ok()) << space.status();
  const std::size_t all = Legal(*space).size();
  std::size_t visited = 0;
  int looks = 0;
  const auto visit = [&](const ParallelPlan&) {
    ++visited;
    return true;
  };
  EXPECT_TRUE(space->ForEachLegal(visit, [&](const SearchSpace::Counts&) { return ++looks < 3; }).ended_at);
  EXPECT_EQ(looks, 3);
  EXPECT_LT(visited, all);
  EXPECT_TRUE(space->ForEachLegal([](const ParallelPlan&) { return false; }).ended_at);
  EXPECT_FALSE(space->ForEachLegal(visit).ended_at);
}

}  // namespace
}  // namespace autocfg
