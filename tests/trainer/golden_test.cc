// The engine against an independent implementation (tests/golden/make_gpt2_golden.py): from the same weights
// and data, the same losses, norms and final weights, on one rank and on eight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/trainer/thread_ranks.h"
#include "trainer/run/safetensors.h"

namespace autocfg {
namespace {

const std::string kGolden = std::string(AUTOCFG_SOURCE_DIR) + "/tests/golden/";

nlohmann::json GoldenRun() {
  std::ifstream in(kGolden + "gpt2_run.json");
  return nlohmann::json::parse(in);
}

TrainConfig GoldenConfig(const nlohmann::json& golden) {
  const auto& model = golden.at("model");
  const auto& run = golden.at("run");
  TrainConfig c;
  c.model.layers = model.at("layers");
  c.model.hidden = model.at("hidden");
  c.model.heads = model.at("heads");
  c.model.vocab = model.at("vocab");
  c.model.max_seq_len = model.at("max_seq_len");
  c.model.norm_eps = model.at("norm_eps");
  c.model.vocab_multiple = 8;
  FillDefaults(c.model);
  c.workload.global_batch = run.at("global_batch");
  c.workload.seq_len = run.at("seq_len");
  c.workload.precision = *ParsePrecision("fp64");
  c.adamw = {.beta1 = run.at("beta1"),
             .beta2 = run.at("beta2"),
             .eps = run.at("adam_eps"),
             .weight_decay = run.at("weight_decay")};
  EXPECT_EQ(run.at("lr_schedule"), "cosine");
  c.lr = {.lr = run.at("lr"),
          .min_lr = run.at("min_lr"),
          .decay = LrDecay::kCosine,
          .warmup_steps = run.at("warmup_steps"),
          .steps = run.at("steps")};
  c.clip_norm = run.at("clip_norm");
  c.data_path = kGolden + "gpt2_tokens.u16";
  c.init_path = kGolden + "gpt2_initial.safetensors";
  return c;
}

void ExpectGolden(const testing::JobOutcome& outcome, const nlohmann::json& golden) {
  EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
  const std::vector<double> losses = golden.at("losses"), norms = golden.at("grad_norms");
  ASSERT_EQ(outcome.steps.size(), losses.size());
  for (std::size_t s = 0; s < losses.size(); ++s) {
    EXPECT_NEAR(outcome.steps[s].loss, losses[s], 1e-9 * losses[s]) << "step " << s;
    EXPECT_NEAR(outcome.steps[s].grad_norm, norms[s], 1e-9 * norms[s]) << "step " << s;
  }
  const SafetensorsFile final_weights(kGolden + "gpt2_final.safetensors");
  ASSERT_EQ(outcome.weights.size(), final_weights.tensors().size());
  for (const auto& [name, got] : outcome.weights) {
    std::vector<double> want(got.size());
    final_weights.Read(name, 0, want);
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      worst = std::max(worst, std::abs(got[i] - want[i]));
    }
    EXPECT_LE(worst, 1e-9 * largest) << name;
  }
}

TEST(Golden, OneRankMakesTheIndependentImplementationsSteps) {
  const nlohmann::json golden = GoldenRun();
  ExpectGolden(testing::RunAsThreads(GoldenConfig(golden)), golden);
}

TEST(Golden, SoDoLayoutsThatSplitOnEveryAxis) {
  const nlohmann::json golden = GoldenRun();
  TrainConfig c = GoldenConfig(golden);
  c.plan = {.tp = 3, .pp = 1, .dp = 2, .micro_batch = 2, .recompute = Recompute::kFull};
  ExpectGolden(testing::RunAsThreads(c), golden);
  c.plan = {.tp = 1, .pp = 2, .dp = 2};
  ExpectGolden(testing::RunAsThreads(c), golden);
}

// The run is one in which clipping acts in some steps and not in others, and the data wraps around.
TEST(Golden, TheRunExercisesClippingAndWrapping) {
  const nlohmann::json golden = GoldenRun();
  const std::vector<double> norms = golden.at("grad_norms");
  const double clip = golden.at("run").at("clip_norm");
  EXPECT_LT(*std::min_element(norms.begin(), norms.end()), clip);
  EXPECT_GT(*std::max_element(norms.begin(), norms.end()), clip);
}

}  // namespace
}  // namespace autocfg
