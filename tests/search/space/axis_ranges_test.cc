#include "search/space/axis_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/space/search_space.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PlanOption& Option(std::string_view name) { return *FindPlanOption(name); }

std::vector<std::string> Expand(std::string_view name, const std::vector<std::string>& values,
                                const std::vector<std::int64_t>& sizes = {1, 2, 4, 8}) {
  const auto expanded = ExpandRanges(Option(name), values, sizes);
  EXPECT_TRUE(expanded.ok()) << expanded.status();
  return expanded.value_or(std::vector<std::string>());
}

TEST(AxisRanges, HoldTheValuesThatTheAxisTakes) {
  EXPECT_THAT(Expand("tp", {"<=4"}), ElementsAre("1", "2", "4"));
  EXPECT_THAT(Expand("tp", {"<4"}), ElementsAre("1", "2"));
  EXPECT_THAT(Expand("tp", {">=4"}), ElementsAre("4", "8"));
  EXPECT_THAT(Expand("tp", {">4"}), ElementsAre("8"));
  EXPECT_THAT(Expand("mbs", {"1-4", "16"}), ElementsAre("1", "2", "4", "16"));
  EXPECT_THAT(Expand("mbs", {"2-2"}), ElementsAre("2"));
  EXPECT_THAT(Expand("zero", {">=1"}), ElementsAre("1", "2", "3")) << "the choices of the row";
  EXPECT_THAT(Expand("tp_overlap", {"2-8"}), ElementsAre("2", "4", "8"));
  EXPECT_THAT(Expand("sp", {"0-1"}), ElementsAre("0", "1"));
  EXPECT_THAT(Expand("recompute", {"none", "full:*"}), ElementsAre("none", "full:*"));
  EXPECT_EQ(RangeText(Option("tp"), {"<=4"}, {"1", "2"}), "tp<=4 is tp=1,2");
}

TEST(AxisRanges, BadOnesSayWhatToWrite) {
  struct Wrong {
    const char* option;
    std::vector<std::string> values;
    const char* says;
  };
  for (const auto& [option, values, says] :
       {Wrong{"tp", {"4-1"}, "tp=4-1 holds no value; write the smaller number first, as in tp=1-4"},
        Wrong{"tp", {">8"}, "tp>8 holds no value; tp takes 1, 2, 4, 8 here"},
        Wrong{"tp", {"<1"}, "tp<1 holds no value"}, Wrong{"tp", {"<"}, "tp< is not a range of whole numbers"},
        Wrong{"tp", {"<=x"}, "tp<=x is not a range of whole numbers; write tp=1-4, tp<=4 or tp>=2"},
        Wrong{"tp", {"<=-1"}, "tp<=-1 is not a range"}, Wrong{"tp", {"1-"}, "tp=1- is not a range"},
        Wrong{"tp", {"1-2-3"}, "tp=1-2-3 is not a range"}, Wrong{"tp", {"1.5-2"}, "tp=1.5-2 is not a range"},
        Wrong{"tp", {"1-99999999999"}, "is not a range"},
        Wrong{"tp", {"<=4", "8"}, "tp<=4 is a bound beside other values; write one range, as in tp=2-4"},
        Wrong{"schedule", {"<=2"}, "schedule takes no bound, since its values are not numbers; list them"},
        Wrong{"split", {">=2"}, "split takes no bound"}}) {
    const auto expanded = ExpandRanges(Option(option), values, {1, 2, 4, 8});
    EXPECT_TRUE(absl::IsInvalidArgument(expanded.status())) << says;
    EXPECT_THAT(std::string(expanded.status().message()), HasSubstr(says));
  }
}

TEST(AxisRanges, AreReadFromTheCommandLine) {
  const auto parsed = ParseAxisValues({"tp<=4", "pp>1", "mbs=1-4,8", "recompute=full:*"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed,
            (AxisValues{{"tp", {"<=4"}}, {"pp", {">1"}}, {"mbs", {"1-4", "8"}}, {"recompute", {"full:*"}}}));
  for (const auto& [text, says] :
       {std::pair("tp=>4", "write tp>=4"), std::pair("tp=<4", "write tp<=4"), std::pair("<4", "nor a bound"),
        std::pair("tp<", "nor a bound"), std::pair("tp<4,", "empty value")}) {
    EXPECT_THAT(std::string(ParseAxisValues({text}).status().message()), HasSubstr(says)) << text;
  }
}

// A space by ranges has the plans of the space that lists their values.
TEST(AxisRanges, MakeTheSpaceOfTheirValues) {
  const ModelSpec model{.name = "six",
                        .layers = 6,
                        .hidden = 64,
                        .heads = 4,
                        .kv_heads = 4,
                        .head_dim = 16,
                        .ffn_hidden = 256,
                        .vocab = 512,
                        .max_seq_len = 32};
  const Workload workload{.global_batch = 12, .seq_len = 32};
  const auto plans = [&](const AxisValues& values) {
    const auto space = SearchSpace::Create(model, workload, 8, values);
    EXPECT_TRUE(space.ok()) << space.status();
    std::vector<ParallelPlan> all;
    space->ForEachLegal([&](const ParallelPlan& plan) {
      all.push_back(plan);
      return true;
    });
    EXPECT_FALSE(all.empty());
    return all;
  };
  EXPECT_EQ(plans({{"tp", {"<=2"}}, {"mbs", {"1-4"}}, {"zero", {">=1"}}}),
            plans({{"tp", {"1", "2"}}, {"mbs", {"1", "2", "3", "4"}}, {"zero", {"1", "2", "3"}}}));
  EXPECT_EQ(plans({{"vpp", {">1"}}, {"dp_shard", {"2-8"}}}),
            plans({{"vpp", {"2", "3", "6"}}, {"dp_shard", {"2", "4", "8"}}}));
  EXPECT_EQ(plans({{"recompute", {"none"}}}), plans({})) << "the least depth, where it is derived";
  EXPECT_EQ(
      plans({{"recompute", {"full:*", "full:2", "full"}}, {"pp", {"1"}}}),
      plans({{"recompute", {"full:1", "full:2", "full:3", "full:4", "full:5", "full"}}, {"pp", {"1"}}}));
}

TEST(AxisRanges, TellWhatTheyWereReadAs) {
  ModelSpec model{.layers = 4, .hidden = 64, .heads = 4, .vocab = 512, .max_seq_len = 32};
  FillDefaults(model, 0);
  const auto space = SearchSpace::Create(model, {.global_batch = 8, .seq_len = 32}, 4,
                                         {{"tp", {"<=2"}}, {"pp", {"1", "2"}}, {"recompute", {"full:*"}}});
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_THAT(space->RangeTexts(),
              ElementsAre("tp<=2 is tp=1,2", "recompute=full:* is recompute=full:1,full:2,...,full"));
}

}  // namespace
}  // namespace autocfg
