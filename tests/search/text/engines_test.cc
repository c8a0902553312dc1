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

TEST(Engines, TakeSettingsOfARunInPlaceOfTheirFigures) {
  const EngineProfile file = *EngineNamed("megatron");
  const EngineProfile engine = *EngineNamed("megatron:logit_bytes=8,recompute_chunk=4,pools_activations=0");
  EXPECT_EQ(engine.name, "megatron");
  EXPECT_EQ(engine.logit_bytes, 8);
  EXPECT_EQ(engine.recompute_chunk, 4);
  EXPECT_FALSE(engine.pools_activations);
  EXPECT_EQ(engine.library_bytes, file.library_bytes);
  EXPECT_EQ(EngineText(file), "megatron");
  EXPECT_EQ(EngineText(engine), "megatron:pools_activations=0,recompute_chunk=4,logit_bytes=8")
      << "in the order of the fields";
  EXPECT_EQ(*EngineNamed(EngineText(engine)), engine);
  EXPECT_EQ(*EngineNamed("megatron:logit_bytes=4"), file) << "the figure of the file changes nothing";
}

TEST(Engines, ReadBackEverySettingThatTheyWrite) {
  for (const base::Field<EngineProfile>& field : EngineFields()) {
    if (field.name == "name") continue;
    for (const EngineProfile& want : test::ChangedIn(field, EngineProfile())) {
      const std::string value = base::JsonOf(*field.Get(want)).dump();
      const std::string text = value == "true" ? "1" : value == "false" ? "0" : value;
      const auto engine = EngineNamed(std::string("autocfg:").append(field.name) + "=" + text);
      ASSERT_TRUE(engine.ok()) << engine.status();
      EXPECT_EQ(field.Get(*engine), field.Get(want)) << field.name;
      EXPECT_EQ(*EngineNamed(EngineText(*engine)), *engine) << field.name;
    }
  }
}

TEST(Engines, RefuseWrongSettings) {
  const auto refusal = [](const char* text) { return std::string(EngineNamed(text).status().message()); };
  EXPECT_THAT(refusal("megatron:"), HasSubstr("megatron has no setting ''; write one as NAME=VALUE"));
  EXPECT_THAT(refusal("megatron:name=x"), HasSubstr("megatron has no setting 'name'"));
  EXPECT_THAT(refusal("megatron:logit_byte=8"), HasSubstr("did you mean logit_bytes?"));
  EXPECT_THAT(refusal("megatron:logit_bytes=8,logit_bytes=8"), HasSubstr("logit_bytes is set twice"));
  EXPECT_THAT(refusal("megatron:logit_bytes=8,"), HasSubstr("megatron has no setting ''"));
  EXPECT_THAT(refusal("megatron:logit_bytes"), HasSubstr("write logit_bytes=NUMBER"));
  EXPECT_THAT(refusal("megatron:logit_bytes=x"), HasSubstr("'logit_bytes=x' cannot be read"));
  EXPECT_THAT(refusal("megatron:keeps_operands=2"), HasSubstr("write keeps_operands=0 or 1"));
  EXPECT_THAT(refusal("megatron:recompute_chunk=0"),
              HasSubstr("recompute_chunk is 0; it must be from 1 to 1e+06"));
  EXPECT_THAT(refusal("megatorn:logit_bytes=8"), HasSubstr("unknown engine 'megatorn'"));
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
