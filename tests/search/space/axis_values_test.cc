// The values that a space's axes name: what they bound, which of them go together, and which are refused.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/plan_text.h"
#include "search/space/search_space.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Batch;
using test::Legal;
using test::Model;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(SearchSpace, AxesBoundIt) {
  const AxisValues values = {{"tp", {"2", "1", "2"}}, {"pp", {"2"}},
                             {"micro_batch", {"2"}},  {"schedule", {"gpipe"}},
                             {"recompute", {"full"}}, {"virtual_stages", {"1"}},
                             {"sp", {"0"}},           {"zero", {"0"}},
                             {"split", {"even"}},     {"attention", {"fused"}},
                             {"p2p_overlap", {"0"}},  {"scatter_gather", {"0"}}};
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

// What a schedule cannot take is no plan of the space; where nothing else was asked for, that is an error.
TEST(SearchSpace, SchedulesAndVirtualStagesGoTogether) {
  const auto count = [](const AxisValues& values) {
    const auto space = SearchSpace::Create(Model(8), Batch(8), 4, values);
    EXPECT_TRUE(space.ok()) << space.status();
    std::map<std::pair<Schedule, std::int64_t>, int> by_schedule;
    for (const ParallelPlan& plan : Legal(*space)) ++by_schedule[{plan.schedule, plan.virtual_stages}];
    return by_schedule;
  };
  using Key = std::pair<Schedule, std::int64_t>;
  EXPECT_THAT(count({{"schedule", {"interleaved", "1f1b"}}, {"vpp", {"2"}}}),
              ElementsAre(Pair(Key(Schedule::kInterleaved, 2), _)));
  EXPECT_THAT(count({{"schedule", {"interleaved"}}}),
              ElementsAre(Pair(Key(Schedule::kInterleaved, 2), _), Pair(Key(Schedule::kInterleaved, 4), _)));
  EXPECT_THAT(count({{"vpp", {"1", "2"}}, {"schedule", {"gpipe", "interleaved"}}, {"pp", {"1", "2"}}}),
              ElementsAre(Pair(Key(Schedule::kGPipe, 1), _), Pair(Key(Schedule::kOneFOneB, 1), _),
                          Pair(Key(Schedule::kInterleaved, 2), _)))
      << "gpipe at pp=1 is 1f1b";
  for (const AxisValues& values : {AxisValues{{"schedule", {"1f1b"}}, {"vpp", {"2"}}},
                                   AxisValues{{"schedule", {"interleaved"}}, {"vpp", {"1"}}},
                                   AxisValues{{"schedule", {"gpipe", "1f1b"}}, {"vpp", {"2", "4"}}},
                                   AxisValues{{"schedule", {"interleaved"}}, {"pp", {"1"}}},
                                   AxisValues{{"vpp", {"2"}}, {"pp", {"1"}}}}) {
    const auto space = SearchSpace::Create(Model(8), Batch(8), 4, values);
    EXPECT_EQ(space.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(space.status().message()),
                HasSubstr("interleaved takes vpp and pp of at least 2, any other schedule vpp=1"));
  }
}

TEST(SearchSpace, KnowsWhichSplitsItGoesThrough) {
  ParallelPlan even;
  even.pp = 2;
  ParallelPlan uneven = even;
  uneven.split = SplitMode::kExplicit;
  uneven.split_layers = {3, 1};
  const auto holds = [](const std::vector<std::string>& splits, const ParallelPlan& plan) {
    const auto space = SearchSpace::Create(Model(4), Batch(8), 2, {{"split", splits}});
    EXPECT_TRUE(space.ok()) << space.status();
    return space->HoldsSplit(plan);
  };
  EXPECT_TRUE(holds({"even", "auto"}, even));
  EXPECT_FALSE(holds({"even", "auto"}, uneven));
  EXPECT_FALSE(holds({"auto"}, even));
  EXPECT_TRUE(holds({"auto", "2+2"}, even));
  EXPECT_TRUE(holds({"auto", "3+1"}, uneven));
  EXPECT_FALSE(holds({"auto", "1+3"}, uneven));
}

TEST(SearchSpace, Refused) {
  const auto message = [](const AxisValues& values, absl::StatusCode code) {
    const auto space = SearchSpace::Create(Model(), Batch(8), 4, values);
    EXPECT_EQ(space.status().code(), code);
    return std::string(space.status().message());
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(message({{"shedule", {"gpipe"}}}, kInvalid),
              AllOf(HasSubstr("shedule"), HasSubstr("did you mean schedule")));
  EXPECT_THAT(message({{"tp", {}}}, kInvalid), HasSubstr("tp has no values"));
  EXPECT_THAT(message({{"tp", {"1"}}, {"tp", {"2"}}}, kInvalid), HasSubstr("tp is named twice"));
  EXPECT_THAT(message({{"mbs", {"1"}}, {"micro_batch", {"2"}}}, kInvalid), HasSubstr("mbs is named twice"));
  EXPECT_THAT(message({{"tp", {"x"}}}, kInvalid), HasSubstr("space: tp=x"));
  EXPECT_THAT(message({{"tp", {"0"}}}, kInvalid), HasSubstr("tp=0 must be at least 1"));
  EXPECT_THAT(message({{"tp", {"3"}}}, kInvalid), HasSubstr("makes 4 ranks"));
  EXPECT_THAT(message({{"tp", {"2"}}, {"pp", {"1"}}, {"dp", {"1"}}}, kInvalid), HasSubstr("makes 4 ranks"));
  EXPECT_THAT(message({{"schedule", {"2f2b"}}}, kInvalid), HasSubstr("space: schedule=2f2b"));
  EXPECT_THAT(message({{"recompute", {"full:0"}}}, kInvalid), HasSubstr("recompute=full:0"));
  EXPECT_THAT(message({{"recompute", {"some"}}}, kInvalid), HasSubstr("recompute=some"));
  EXPECT_THAT(message({{"vpp", {"0"}}}, kInvalid), HasSubstr("vpp=0 must be at least 1"));
  EXPECT_THAT(message({{"split", {"2+x"}}}, kInvalid), HasSubstr("split=2+x"));
  EXPECT_THAT(message({{"split", {"3+0"}}}, kInvalid), HasSubstr("split=3+0"));
  EXPECT_THAT(message({{"attention", {"flash"}}}, kInvalid), HasSubstr("attention=flash"));
  EXPECT_THAT(message({{"scatter_gather", {"2"}}}, kInvalid), HasSubstr("scatter_gather=2"));
  EXPECT_EQ(SearchSpace::Create(Model(), Batch(8), 0, {}).status().code(), kInvalid);
  EXPECT_EQ(SearchSpace::Create(Model(), Batch(0), 4, {}).status().code(), kInvalid);
  EXPECT_EQ(SearchSpace::Create(ModelSpec(), Batch(8), 4, {}).status().code(), kInvalid);
}

}  // namespace
}  // namespace autocfg
