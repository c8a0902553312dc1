#include "search/text/engines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_fields.h"
#include "nlohmann/json.hpp"
#include "tests/support/field_samples.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Engines, AllHaveAFile) {
  EXPECT_THAT(EngineNames(), ElementsAre("autocfg", "deepspeed", "fsdp", "gpt-neox", "maxtext", "megatron",
                                         "megatron-bridge", "nanotron", "nemo", "torchtitan"));
  for (const std::string& name : EngineNames()) {
    const auto engine = EngineNamed(name);
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ(engine->name, name);
  }
  EXPECT_EQ(*EngineNamed("autocfg"), EngineProfile()) << "the defaults are our own engine's";
  EXPECT_TRUE(EngineNamed("megatron")->hides_backward_gathers);
  EXPECT_TRUE(EngineNamed("torchtitan")->overlaps_parameters);
}

TEST(Engines, UnknownNamesListTheOthers) {
  const auto unknown = EngineNamed("megatorn");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(unknown.status().message()),
      HasSubstr("unknown engine 'megatorn'; expected autocfg, deepspeed, fsdp, gpt-neox, maxtext, megatron, "
                "megatron-bridge, nanotron, nemo or torchtitan"));
}

TEST(Engines, MayHaveTheFiguresOfAnother) {
  EngineProfile deepspeed = *EngineNamed("deepspeed");
  deepspeed.name = "gpt-neox";
  EXPECT_EQ(*EngineNamed("gpt-neox"), deepspeed);
}

TEST(Engines, OfWorkersMayHaveNoFigures) {
  EXPECT_EQ(*EngineOfWorkers("megatron"), *EngineNamed("megatron"));
  EngineProfile own;
  own.name = "torch-gpt_1.2";
  EXPECT_EQ(*EngineOfWorkers(own.name), own);
  for (const std::string& wrong : {std::string(), std::string("a b"), std::string("../x"), std::string("1a"),
                                   std::string(41, 'a'), std::string("\xc3\xbc")}) {
    EXPECT_THAT(std::string(EngineOfWorkers(wrong).status().message()), HasSubstr("is no engine's name"));
  }
}

TEST(Engines, ReadsEveryField) {
  for (const base::Field<EngineProfile>& field : EngineFields()) {
    for (const EngineProfile& want : test::ChangedIn(field, EngineProfile())) {
      Json json = {{"name", want.name}};
      json[std::string(field.name)] = base::JsonOf(*field.Get(want));
      const auto engine = ParseEngineJson(json);
      ASSERT_TRUE(engine.ok()) << engine.status();
      EXPECT_EQ(*engine, want) << field.name;
      EXPECT_NE(want, EngineProfile()) << field.name;
    }
  }
}

TEST(Engines, RefusesWrongFigures) {
  const auto refusal = [](const char* text) {
    const auto engine = ParseEngineJson(Json::parse(text));
    EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(engine.status().message());
  };
  EXPECT_THAT(refusal(R"({"matmul": 1})"), HasSubstr("name is missing"));
  EXPECT_THAT(refusal(R"({"name": "x", "matmul": 3})"),
              HasSubstr("engine: matmul is 3; it must be from 0.05 to 1.5"));
  EXPECT_THAT(refusal(R"({"name": "x", "step_s": -1})"), HasSubstr("step_s"));
  EXPECT_THAT(refusal(R"({"name": "x", "matmull": 1})"), HasSubstr("did you mean matmul"));
}

}  // namespace
}  // namespace autocfg
