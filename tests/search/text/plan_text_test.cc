// Plans as text and as JSON: the whole table of options, the way back, and what is refused.
#include "search/plan/plan_text.h"

#include <random>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/text/plan_json.h"

namespace autocfg {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PlanText, Defaults) {
  const auto plan = ParsePlanText("tp=2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ParallelPlan expected;
  expected.tp = 2;
  EXPECT_EQ(*plan, expected);
  EXPECT_EQ(PlanText(*plan), "tp=2,pp=1,dp=1,mbs=1");
}

TEST(PlanText, EveryOption) {
  const std::string text =
      "tp=8,pp=4,dp=2,mbs=3,vpp=2,schedule=gpipe,split=9+8+8+7,recompute=full:2,attention=unfused,sp=1,zero="
      "1,"
      "tp_overlap=4,grad_overlap=1,param_overlap=1,p2p_overlap=1,scatter_gather=1";
  const auto plan = ParsePlanText(text);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->virtual_stages, 2);
  EXPECT_EQ(plan->split_layers, (std::vector<std::int64_t>{9, 8, 8, 7}));
  EXPECT_EQ(plan->recompute_layers, 2);
  EXPECT_EQ(PlanText(*plan), text);
}

TEST(PlanText, ScheduleDefaultsByVirtualStages) {
  EXPECT_EQ(ParsePlanText("pp=2,vpp=2")->schedule, Schedule::kInterleaved);
  EXPECT_EQ(ParsePlanText("pp=2")->schedule, Schedule::kOneFOneB);
  EXPECT_EQ(ParsePlanText("vpp=2,schedule=1f1b")->schedule, Schedule::kOneFOneB);
  EXPECT_EQ(PlanText(*ParsePlanText("pp=2,vpp=2")), "tp=1,pp=2,dp=1,mbs=1,vpp=2");
  EXPECT_EQ(PlanText(*ParsePlanText("pp=2,schedule=interleaved")),
            "tp=1,pp=2,dp=1,mbs=1,schedule=interleaved");
}

ParallelPlan RandomPlan(std::mt19937_64& random) {
  const auto pick = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  ParallelPlan plan;
  plan.tp = pick(9);
  plan.pp = 1 + pick(8);
  plan.dp = pick(std::int64_t{1} << 31);
  plan.micro_batch = 1 + pick(4);
  plan.virtual_stages = 1 + pick(3);
  plan.schedule = static_cast<Schedule>(pick(4));
  plan.split = static_cast<SplitMode>(pick(3));
  if (plan.split == SplitMode::kExplicit)
    plan.split_layers.assign(static_cast<std::size_t>(1 + pick(4)), 1 + pick(9));
  plan.recompute = static_cast<Recompute>(pick(3));
  if (plan.recompute == Recompute::kFull) plan.recompute_layers = pick(3);
  plan.attention = static_cast<Attention>(pick(2));
  plan.sequence_parallel = pick(2) == 1;
  plan.zero_stage = pick(4);
  if (const std::int64_t shard = pick(4); shard != (plan.zero_stage == 0 ? 1 : plan.dp))
    plan.dp_shard = shard;
  plan.tp_overlap = std::int64_t{1} << pick(4);
  plan.grad_overlap = pick(2) == 1;
  plan.param_overlap = pick(2) == 1;
  plan.p2p_overlap = pick(2) == 1;
  plan.scatter_gather = pick(2) == 1;
  return plan;
}

TEST(PlanText, ThereAndBack) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const ParallelPlan plan = RandomPlan(random);
    const auto from_text = ParsePlanText(PlanText(plan));
    ASSERT_TRUE(from_text.ok()) << PlanText(plan) << ": " << from_text.status();
    ASSERT_EQ(*from_text, plan) << PlanText(plan);
    const auto from_json = ParsePlanJson(nlohmann::ordered_json::parse(PlanJson(plan).dump()));
    ASSERT_TRUE(from_json.ok()) << PlanJson(plan).dump() << ": " << from_json.status();
    ASSERT_EQ(*from_json, plan);
  }
}

TEST(PlanText, Refused) {
  const auto message = [](std::string_view text) {
    const auto plan = ParsePlanText(text);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(plan.status().message());
  };
  EXPECT_THAT(message(""), HasSubstr("empty"));
  EXPECT_THAT(message("tp=2,"), HasSubstr("'tp=2,' has an empty part; write tp=2,pp=1"));
  EXPECT_THAT(message("tp"), HasSubstr("'tp' is not of the form option=value; write tp=2,pp=1"));
  EXPECT_THAT(message("tq=2"), AllOf(HasSubstr("unknown option tq"), HasSubstr("did you mean tp")));
  EXPECT_THAT(message("micro=2"), HasSubstr("unknown option micro"));
  EXPECT_THAT(message("recomput=full"), HasSubstr("did you mean recompute?"));
  EXPECT_THAT(message("tp=2,tp=4"), HasSubstr("tp is named twice; give it once"));
  for (const char* value :
       {"", "-1", "+1", "x", "1.5", "1 1", "2147483648", "99999999999999999999", "1e3", "nan"}) {
    EXPECT_THAT(message(std::string("tp=") + value), HasSubstr("whole number")) << value;
  }
  EXPECT_TRUE(ParsePlanText("tp=0").ok()) << "legality says that a size is not positive";
  EXPECT_TRUE(ParsePlanText("tp=2147483647").ok());
  EXPECT_THAT(message("schedule=1f2b"),
              AllOf(HasSubstr("gpipe, 1f1b, interleaved, zb-h1"), HasSubstr("did you mean 1f1b")));
  EXPECT_THAT(message("split=4+"), HasSubstr("split=4+"));
  EXPECT_THAT(message("split=4+0"), HasSubstr("split=4+0"));
  EXPECT_THAT(message("split="), HasSubstr("split"));
  EXPECT_THAT(message("recompute=selective:mlp,norm"),
              HasSubstr("'norm' is a part of layers: write recompute=selective:norm, with '+' between"));
  EXPECT_THAT(message("recompute=norm"), HasSubstr("recompute=norm is not valid; it must be selective:norm"));
  EXPECT_THAT(message("recompute=full:"), HasSubstr("full:K"));
  EXPECT_THAT(message("recompute=full:0"), HasSubstr("full:K"));
  EXPECT_THAT(message("recompute=most"), HasSubstr("one of none, selective, selective:NAMES, full, full:K"));
  EXPECT_THAT(message("recompute=selectiv"), HasSubstr("did you mean selective"));
  for (const char* value : {"selective:", "selective:mlp+", "selective:+", "selective:NAMES", "selective:MLP",
                            "selective:attn", "selective:mlp act"})
    EXPECT_THAT(message(std::string("recompute=") + value), HasSubstr("recompute")) << value;
  EXPECT_THAT(message("recompute=selective:mpl"), AllOf(HasSubstr("names the part 'mpl', which is not known"),
                                                        HasSubstr("one of core_attn, mlp, act, norm")));
  EXPECT_THAT(message("recompute=selective:MLP"), HasSubstr("names the part 'MLP', which is not known"));
  EXPECT_THAT(message("recompute=selective:core_atn"), HasSubstr("did you mean core_attn"));
  EXPECT_THAT(message("recompute=selective:mlp+norm+mlp"), HasSubstr("a list that names mlp once"));
  EXPECT_THAT(message("sp=2"), HasSubstr("0 or 1"));
  EXPECT_THAT(message("zero=4"), HasSubstr("one of 0, 1, 2, 3"));
  EXPECT_THAT(message("dp_shard=0x"), HasSubstr("a whole number"));
  EXPECT_THAT(message("tp_overlap=3"), HasSubstr("one of 1, 2, 4, 8"));
}

TEST(PlanText, PartsOfLayersThatAreComputedAgain) {
  const auto parts_of = [](const char* text) { return ParsePlanText(text)->recompute_parts; };
  EXPECT_EQ(parts_of("recompute=selective"), LayerParts{LayerPart::kCoreAttention});
  EXPECT_EQ(*ParsePlanText("recompute=selective:core_attn"), *ParsePlanText("recompute=selective"));
  EXPECT_EQ(parts_of("recompute=selective:norm+mlp"), (LayerParts{LayerPart::kMlp, LayerPart::kNorm}));
  EXPECT_EQ(PlanText(*ParsePlanText("recompute=selective:norm+act+core_attn")),
            "tp=1,pp=1,dp=1,mbs=1,recompute=selective:core_attn+act+norm");
  EXPECT_EQ(ParsePlanText("recompute=selective:mlp+experts").status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(ParsePlanText("recompute=selective:experts").status().message()),
              HasSubstr("not supported yet"));
}

TEST(PlanText, BlanksAroundOptions) {
  for (const char* text : {"tp=2, pp=2", " tp=2 ,\tpp=2\n", "tp=2 ,pp=2", "tp = 2, pp= 2"})
    EXPECT_EQ(*ParsePlanText(text), *ParsePlanText("tp=2,pp=2")) << text;
  EXPECT_EQ(*ParsePlanJson(nlohmann::ordered_json("tp=2, pp=2")), *ParsePlanText("tp=2,pp=2"));
  for (const auto& [text, says] : {std::pair<const char*, const char*>{" ", "it is empty"},
                                   {"tp=2, ", "'tp=2, ' has an empty part"},
                                   {"tp=2, , pp=2", "'tp=2, , pp=2' has an empty part"},
                                   {"t p=2", "unknown option t p"},
                                   {"tp=2, tp=4", "tp is named twice"}}) {
    EXPECT_THAT(std::string(ParsePlanText(text).status().message()), HasSubstr(says)) << text;
  }
}

// Who writes the one form with the other's names is told the right one, whatever else is near.
TEST(PlanText, ALongOneIsCutForAMessage) {
  std::vector<std::int64_t> layers;
  for (std::int64_t stage = 0; stage < 400; ++stage) layers.push_back(1 + stage % 2);
  ParallelPlan plan{{.pp = 400}, {}, {.split = SplitMode::kExplicit, .split_layers = layers}};
  EXPECT_EQ(ShortPlanText(plan), PlanText(plan).substr(0, 160) + "...");
  plan = {{.tp = 2}};
  EXPECT_EQ(ShortPlanText(plan), PlanText(plan));
}

TEST(PlanText, NamesOfTheOtherForm) {
  const auto of_text = [](const std::string& name) {
    return std::string(ParsePlanText(name + "=2").status().message());
  };
  const auto of_json = [](const std::string& name) {
    return std::string(ParsePlanJson(nlohmann::ordered_json{{name, 2}}).status().message());
  };
  for (const auto& [text, json] : {std::pair<const char*, const char*>{"mbs", "micro_batch"},
                                   {"vpp", "virtual_stages"},
                                   {"sp", "sequence_parallel"},
                                   {"zero", "zero_stage"}}) {
    EXPECT_EQ(of_text(json), fmt::format("plan: unknown option {}; did you mean {}?", json, text));
    EXPECT_EQ(of_json(text), fmt::format("plan: unknown field {}; did you mean {}?", text, json));
  }
  EXPECT_THAT(of_text("microbatch"), HasSubstr("; did you mean mbs?"));
  EXPECT_THAT(of_text("recomput"), HasSubstr("; did you mean recompute?"));
  EXPECT_THAT(of_json("zero_stag"), HasSubstr("; did you mean zero_stage?"));
  EXPECT_THAT(of_text("nothing_like_it"),
              HasSubstr("plan: unknown option nothing_like_it; expected tp, pp, dp, mbs, "));
}

TEST(PlanJson, Forms) {
  using Json = nlohmann::ordered_json;
  EXPECT_EQ(*ParsePlanJson(Json("tp=2,pp=2")), *ParsePlanText("tp=2,pp=2"));
  EXPECT_EQ(*ParsePlanJson(Json{{"tp", 2}, {"sequence_parallel", true}}), *ParsePlanText("tp=2,sp=1"));
  EXPECT_EQ(*ParsePlanJson(Json{{"pp", 4.0}, {"sequence_parallel", 1.0}}), *ParsePlanText("pp=4,sp=1"));
  EXPECT_EQ(*ParsePlanJson(Json{{"pp", 4}, {"split", {9, 8, 8.0, 7}}}), *ParsePlanText("pp=4,split=9+8+8+7"));
  EXPECT_EQ(*ParsePlanJson(Json{{"pp", 2}, {"virtual_stages", 2}}), *ParsePlanText("pp=2,vpp=2"));
  const auto message = [](const Json& json) {
    const auto plan = ParsePlanJson(json);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << json;
    return std::string(plan.status().message());
  };
  EXPECT_THAT(message(Json(5)), HasSubstr("object or a string"));
  EXPECT_THAT(message(Json{{"mbs", 2}}), HasSubstr("unknown field mbs"));
  EXPECT_THAT(message(Json{{"tp", 1.5}}), HasSubstr("tp must be a whole number"));
  EXPECT_THAT(message(Json{{"tp", "8"}}), HasSubstr("tp must be a whole number, not \"8\""));
  EXPECT_THAT(message(Json{{"tp", true}}), HasSubstr("tp must be a whole number, not true"));
  EXPECT_THAT(message(Json{{"sequence_parallel", "yes"}}),
              HasSubstr("sequence_parallel must be 0, 1, true or false, not \"yes\""));
  EXPECT_THAT(message(Json{{"schedule", 1}}), HasSubstr("schedule must be a string, not 1"));
  EXPECT_THAT(message(Json{{"split", 8}}), HasSubstr("[9, 8, 8, 7], not 8"));
  EXPECT_THAT(message(Json{{"split", {8, "x"}}}),
              HasSubstr("a list of whole numbers, the layers of each stage, not [8,\"x\"]"));
  EXPECT_THAT(message(Json{{"split", Json::array()}}), HasSubstr("layers per stage such as 9+8+8+7"));
  EXPECT_THAT(message(Json{{"split", {8, 0}}}), HasSubstr("layers per stage such as 9+8+8+7"));
  EXPECT_THAT(message(Json{{"tp", nullptr}}), HasSubstr("tp must be a whole number"));
  EXPECT_THAT(message(Json{{"tp", -1}}), HasSubstr("tp=-1"));
  EXPECT_THAT(message(Json{{"sequence_parallel", 3}}), HasSubstr("0 or 1"));
}

// Whatever the bytes, an answer: a plan or one line.
TEST(PlanText, AnyBytes) {
  std::mt19937_64 random(11);
  int parsed = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = PlanText(RandomPlan(random));
    for (std::size_t n = random() % 4; n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 3); break;
        case 2: text.insert(at, text.substr(random() % text.size(), 5)); break;
        case 3: text.insert(at, 1, "=,+:09-"[random() % 7]); break;
      }
    }
    const auto plan = ParsePlanText(text);
    if (plan.ok()) {
      ++parsed;
      EXPECT_EQ(*ParsePlanText(PlanText(*plan)), *plan);
      continue;
    }
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    for (const char c : plan.status().message()) ASSERT_TRUE(c >= ' ' && c <= '~') << "not a printable line";
  }
  EXPECT_GT(parsed, 500);
  EXPECT_LT(parsed, 4500);
}

}  // namespace
}  // namespace autocfg
