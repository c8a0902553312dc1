#include "search/sizing/model_family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "nlohmann/json.hpp"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

const ModelSpec& WithHidden(const std::vector<ModelSpec>& family, std::int64_t hidden) {
  const auto found = std::find_if(family.begin(), family.end(),
                                  [&](const ModelSpec& model) { return model.hidden == hidden; });
  EXPECT_NE(found, family.end()) << hidden;
  return found == family.end() ? family.front() : *found;
}

TEST(FamilyOfSizes, GoesFromAHundredMillionToATrillion) {
  const std::vector<ModelSpec> family = FamilyOfSizes(4096);
  ASSERT_GT(family.size(), 20u);
  EXPECT_NEAR(static_cast<double>(ParameterCount(family.front())), 1e8, 2e7);
  EXPECT_NEAR(static_cast<double>(ParameterCount(family.back())), 1e12, 1e11);
  for (std::size_t i = 1; i < family.size(); ++i) {
    const auto smaller = static_cast<double>(ParameterCount(family[i - 1]));
    const auto larger = static_cast<double>(ParameterCount(family[i]));
    EXPECT_GT(larger, smaller) << family[i].name;
    EXPECT_LT(larger, 2.2 * smaller) << family[i].name << ": the step is too large";
    EXPECT_GE(family[i].layers, family[i - 1].layers) << family[i].name;
  }
}

TEST(FamilyOfSizes, IsValidAndCanBeSplit) {
  for (const ModelSpec& model : FamilyOfSizes(2048)) {
    EXPECT_TRUE(Validate(model).ok()) << model.name;
    EXPECT_TRUE(CheckPredictable(model).ok()) << model.name;
    EXPECT_EQ(model.heads * model.head_dim, model.hidden) << model.name;
    EXPECT_EQ(model.heads % model.kv_heads, 0) << model.name;
    EXPECT_EQ(model.max_seq_len, 2048);
    if (model.hidden >= 1024) {
      EXPECT_EQ(model.kv_heads % 4, 0) << model.name;
    }
    if (model.hidden >= 6144) {
      EXPECT_EQ(model.kv_heads, 8) << model.name << ": tp=8";
    }
    // What --save writes is the same model.
    const auto read = ParseModelJson(ModelJson(model));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, model);
  }
}

// Published models of these shapes.
TEST(FamilyOfSizes, HoldsPublishedShapes) {
  const std::vector<ModelSpec> family = FamilyOfSizes(8192);
  ModelSpec llama = *ModelPreset("llama3-8b");
  FillDefaults(llama);
  ModelSpec ours = WithHidden(family, 4096);
  ours.name = llama.name;
  EXPECT_EQ(ours, llama);
  EXPECT_EQ(ParameterCount(ours), 8'030'261'248) << "of the released weights";
  for (const auto& [hidden, layers] : {std::pair(768, 12), std::pair(2048, 16), std::pair(5120, 40),
                                       std::pair(12288, 96), std::pair(25600, 128)})
    EXPECT_EQ(WithHidden(family, hidden).layers, layers) << hidden;
}

// Brown et al. 2020, table 2.1; Llama 2 70B (Touvron et al. 2023).
TEST(DefaultBatchTokens, AreThoseOfPublishedModels) {
  for (const auto& [billions, millions] :
       {std::pair(0.125, 0.5), std::pair(0.76, 0.5), std::pair(1.3, 1.0), std::pair(2.7, 1.0),
        std::pair(6.7, 2.0), std::pair(13.0, 2.0), std::pair(70.0, 4.0)}) {
    EXPECT_EQ(static_cast<double>(DefaultBatchTokens(static_cast<std::int64_t>(billions * 1e9))),
              millions * 1e6)
        << billions;
  }
}

TEST(GlobalBatchNear, IsSharedOutEvenly) {
  EXPECT_EQ(GlobalBatchNear(4'000'000, 4096, 64), 1024);
  EXPECT_EQ(GlobalBatchNear(4'000'000, 2048, 64), 2048);
  EXPECT_EQ(GlobalBatchNear(500'000, 4096, 8), 128);
  EXPECT_EQ(GlobalBatchNear(4'000'000, 4096, 800), 800) << "25 x 32";
  EXPECT_EQ(GlobalBatchNear(4'000'000, 4096, 24), 768) << "3 x 256";
  EXPECT_EQ(GlobalBatchNear(1000, 4096, 8), 1) << "less than a sequence";
  EXPECT_EQ(GlobalBatchNear(100'000, 4096, 8 * 127), 127) << "the odd part is more than wanted";
}

}  // namespace
}  // namespace autocfg
