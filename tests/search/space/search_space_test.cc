// The space holds every plan there is, once, in order, and says why the others are not in it.
#include "search/space/search_space.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/text/plan_text.h"

namespace autocfg {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelSpec Model(std::int64_t layers = 4, std::int64_t heads = 4) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = 32 * heads;
  model.heads = heads;
  model.vocab = 1000;
  FillDefaults(model);
  return model;
}

Workload Batch(std::int64_t global_batch) { return {.global_batch = global_batch, .seq_len = 64}; }

std::vector<ParallelPlan> Legal(const SearchSpace& space, SearchSpace::Counts* counts = nullptr) {
  std::vector<ParallelPlan> plans;
  const SearchSpace::Counts found = space.ForEachLegal([&plans](const ParallelPlan& plan) {
    plans.push_back(plan);
    return true;
  });
  if (counts != nullptr) *counts = found;
  return plans;
}

// Against a plain enumeration written another way.
TEST(SearchSpace, HoldsEveryPlanOnce) {
  for (const std::int64_t ranks : {1, 2, 4, 6, 8, 12}) {
    for (const std::int64_t batch : {1, 6, 8, 24}) {
      const ModelSpec model = Model(6, 4);
      const auto space = SearchSpace::Create(model, Batch(batch), ranks, {});
      ASSERT_TRUE(space.ok()) << space.status();
      SearchSpace::Counts counts;
      const std::vector<ParallelPlan> plans = Legal(*space, &counts);

      std::set<ParallelPlan> expected;
      std::int64_t enumerated = 0;
      for (std::int64_t tp = 1; tp <= ranks; ++tp) {
        for (std::int64_t pp = 1; pp <= ranks; ++pp) {
          for (std::int64_t dp = 1; dp <= ranks; ++dp) {
            if (tp * pp * dp != ranks) continue;
            for (std::int64_t mbs = 1; mbs <= batch; ++mbs) {
              if (batch % mbs != 0) continue;
              for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
                for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB}) {
                  if (pp == 1 && schedule == Schedule::kGPipe) continue;
                  ++enumerated;
                  if (6 % pp != 0 || 4 % tp != 0 || batch % (dp * mbs) != 0) continue;
                  ParallelPlan plan;
                  plan.tp = tp;
                  plan.pp = pp;
                  plan.dp = dp;
                  plan.micro_batch = mbs;
                  plan.recompute = recompute;
                  plan.schedule = schedule;
                  expected.insert(plan);
                }
              }
            }
          }
        }
      }
      EXPECT_EQ(std::set<ParallelPlan>(plans.begin(), plans.end()), expected);
      EXPECT_EQ(plans.size(), expected.size());
      EXPECT_EQ(counts.enumerated, enumerated);
      std::int64_t illegal = 0;
      for (const std::int64_t count : counts.illegal) illegal += count;
      EXPECT_EQ(counts.enumerated, illegal + static_cast<std::int64_t>(plans.size()));
      for (const ParallelPlan& plan : plans) {
        EXPECT_EQ(Canonical(plan), plan);
        EXPECT_TRUE(CheckEngineSupports(plan).ok());
        EXPECT_FALSE(FindIllegality(model, Batch(batch), ranks, plan));
      }
    }
  }
}

TEST(SearchSpace, FixedOrder) {
  const auto space = SearchSpace::Create(Model(), Batch(2), 2, {{"recompute", {"none"}}});
  ASSERT_TRUE(space.ok());
  std::vector<std::string> texts;
  for (const ParallelPlan& plan : Legal(*space)) texts.push_back(PlanText(plan));
  EXPECT_THAT(texts, ElementsAre("tp=1,pp=1,dp=2,mbs=1", "tp=1,pp=2,dp=1,mbs=1,schedule=gpipe", "tp=1,pp=2,dp=1,mbs=1",
                                 "tp=1,pp=2,dp=1,mbs=2,schedule=gpipe", "tp=1,pp=2,dp=1,mbs=2", "tp=2,pp=1,dp=1,mbs=1",
                                 "tp=2,pp=1,dp=1,mbs=2"));
}

TEST(SearchSpace, IllegalByReason) {
  const auto space = SearchSpace::Create(Model(3, 2), Batch(2), 4, {{"recompute", {"none"}}, {"schedule", {"1f1b"}}});
  ASSERT_TRUE(space.ok());
  SearchSpace::Counts counts;
  EXPECT_EQ(Legal(*space, &counts).size(), 1u);  // tp=2, dp=2, mbs=1
  EXPECT_EQ(counts.enumerated, 12);              // six layouts, two micro batches
  const auto count = [&](IllegalReason reason) { return counts.illegal[static_cast<std::size_t>(reason)]; };
  EXPECT_EQ(count(IllegalReason::kLayersNotDivisible), 6);  // pp of 2 or 4
  EXPECT_EQ(count(IllegalReason::kHeadsNotDivisible), 2);   // tp=4
  EXPECT_EQ(count(IllegalReason::kBatchNotDivisible), 3);   // dp=4 twice; dp=2 with mbs=2
}

TEST(SearchSpace, StopsWhenAsked) {
  const auto space = SearchSpace::Create(Model(), Batch(8), 8, {});
  ASSERT_TRUE(space.ok());
  int seen = 0;
  const auto counts = space->ForEachLegal([&seen](const ParallelPlan&) { return ++seen < 5; });
  EXPECT_EQ(seen, 5);
  EXPECT_LT(counts.enumerated, space->ForEachLegal([](const ParallelPlan&) { return true; }).enumerated);
}

TEST(SearchSpace, AxesBoundIt) {
  const AxisValues values = {{"tp", {"2", "1", "2"}}, {"pp", {"2"}}, {"micro_batch", {"2"}}, {"schedule", {"gpipe"}},
                             {"recompute", {"full"}}, {"vpp", {"1"}}, {"sp", {"0"}}, {"split", {"even"}},
                             {"attention", {"fused"}}};
  const auto space = SearchSpace::Create(Model(), Batch(8), 4, values);
  ASSERT_TRUE(space.ok()) << space.status();
  std::vector<std::string> texts;
  for (const ParallelPlan& plan : Legal(*space)) texts.push_back(PlanText(plan));
  EXPECT_THAT(texts, ElementsAre("tp=1,pp=2,dp=2,mbs=2,schedule=gpipe,recompute=full",
                                 "tp=2,pp=2,dp=1,mbs=2,schedule=gpipe,recompute=full"));
}

// Forms with nothing to act on are the canonical plan: they add nothing and lose nothing.
TEST(SearchSpace, CanonicalOnly) {
  const auto gpipe = SearchSpace::Create(Model(), Batch(8), 2, {{"schedule", {"gpipe"}}, {"pp", {"1"}}});
  ASSERT_TRUE(gpipe.ok());
  for (const ParallelPlan& plan : Legal(*gpipe)) EXPECT_EQ(plan.schedule, Schedule::kOneFOneB);
  EXPECT_FALSE(Legal(*gpipe).empty());
  const auto selective = SearchSpace::Create(Model(), Batch(8), 2, {{"recompute", {"none", "selective"}}});
  const auto none = SearchSpace::Create(Model(), Batch(8), 2, {{"recompute", {"none"}}});
  ASSERT_TRUE(selective.ok() && none.ok());
  EXPECT_EQ(Legal(*selective), Legal(*none));
}

TEST(SearchSpace, MicroBatchesThatDoNotDivideAreNamed) {
  const auto space = SearchSpace::Create(Model(), Batch(8), 1, {{"mbs", {"3", "16", "2147483647"}}});
  ASSERT_TRUE(space.ok());
  SearchSpace::Counts counts;
  EXPECT_TRUE(Legal(*space, &counts).empty());
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kBatchNotDivisible)], counts.enumerated);
}

TEST(SearchSpace, SizesThatDoNotDivideTheRanksAreCountedOnce) {
  const auto space = SearchSpace::Create(Model(), Batch(8), 4, {{"tp", {"1", "2", "3", "8"}}, {"pp", {"1", "16"}}});
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

TEST(SearchSpace, Refused) {
  const auto message = [](const AxisValues& values, absl::StatusCode code) {
    const auto space = SearchSpace::Create(Model(), Batch(8), 4, values);
    EXPECT_EQ(space.status().code(), code);
    return std::string(space.status().message());
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kLater = absl::StatusCode::kUnimplemented;
  EXPECT_THAT(message({{"shedule", {"gpipe"}}}, kInvalid), AllOf(HasSubstr("shedule"), HasSubstr("did you mean schedule")));
  EXPECT_THAT(message({{"tp", {}}}, kInvalid), HasSubstr("tp has no values"));
  EXPECT_THAT(message({{"tp", {"1"}}, {"tp", {"2"}}}, kInvalid), HasSubstr("tp is named twice"));
  EXPECT_THAT(message({{"mbs", {"1"}}, {"micro_batch", {"2"}}}, kInvalid), HasSubstr("mbs is named twice"));
  EXPECT_THAT(message({{"tp", {"x"}}}, kInvalid), HasSubstr("space: tp=x"));
  EXPECT_THAT(message({{"tp", {"0"}}}, kInvalid), HasSubstr("tp=0 must be at least 1"));
  EXPECT_THAT(message({{"tp", {"3"}}}, kInvalid), HasSubstr("makes 4 ranks"));
  EXPECT_THAT(message({{"tp", {"2"}}, {"pp", {"1"}}, {"dp", {"1"}}}, kInvalid), HasSubstr("makes 4 ranks"));
  EXPECT_THAT(message({{"schedule", {"2f2b"}}}, kInvalid), HasSubstr("space: schedule=2f2b"));
  EXPECT_THAT(message({{"schedule", {"interleaved"}}}, kLater), HasSubstr("schedule=interleaved is not supported yet"));
  EXPECT_THAT(message({{"schedule", {"zb-h1"}}}, kLater), HasSubstr("schedule=zb-h1 is not supported yet"));
  EXPECT_THAT(message({{"recompute", {"full:1"}}}, kLater), HasSubstr("recompute=full:1 is not supported yet"));
  EXPECT_THAT(message({{"vpp", {"2"}}}, kLater), HasSubstr("vpp=2 is not supported yet"));
  EXPECT_THAT(message({{"vpp", {"0"}}}, kInvalid), HasSubstr("vpp=0 must be at least 1"));
  EXPECT_THAT(message({{"split", {"auto"}}}, kLater), HasSubstr("split=auto is not supported yet"));
  EXPECT_THAT(message({{"attention", {"unfused"}}}, kLater), HasSubstr("attention=unfused is not supported yet"));
  for (const char* axis : {"sp", "zero", "grad_overlap", "param_overlap", "p2p_overlap", "scatter_gather"}) {
    EXPECT_THAT(message({{axis, {"0", "1"}}}, kLater), HasSubstr("=1 is not supported yet")) << axis;
    EXPECT_THAT(message({{axis, {"7"}}}, kInvalid), HasSubstr("=7")) << axis;
  }
  EXPECT_THAT(message({{"tp_overlap", {"2"}}}, kLater), HasSubstr("tp_overlap=2 is not supported yet"));
  EXPECT_EQ(SearchSpace::Create(Model(), Batch(8), 0, {}).status().code(), kInvalid);
  EXPECT_EQ(SearchSpace::Create(Model(), Batch(0), 4, {}).status().code(), kInvalid);
  EXPECT_EQ(SearchSpace::Create(ModelSpec(), Batch(8), 4, {}).status().code(), kInvalid);
}

}  // namespace
}  // namespace autocfg
