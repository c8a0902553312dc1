#include "search/training_time/training_estimate.h"

#include <gtest/gtest.h>

#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/training_time/checkpoint_interval.h"

namespace autocfg {
namespace {

// 512 GPUs, steps of 512 * 2048 = 2^20 tokens.
class EstimateTrainingTest : public testing::Test {
 protected:
  TrainingEstimate Of(const TrainingTerms& terms, double step_time_s = 2) const {
    return EstimateTraining(terms, {model_, workload_, cluster_}, step_time_s);
  }

  const ModelSpec model_ = *ModelPreset("gpt3-175b");
  const Workload workload_ = {512, 2048, *ParsePrecision("bf16")};
  const ClusterSpec cluster_ = *PresetCluster("a100-80gb-sxm:64x8");
};

// Narayanan et al. 2021, section 5.1: GPT-3 on 300 billion tokens with 1,024 A100s at 140 TFLOP/s each takes
// 34 days. A trillion parameters on 450 billion tokens with 3,072 A100s at 163 TFLOP/s take 84 days.
TEST_F(EstimateTrainingTest, GivesTheDaysOfPublishedRuns) {
  struct Run {
    const char* model;
    const char* cluster;
    std::int64_t global_batch;
    double tokens, flops_per_gpu_s, days;
  };
  for (const Run& run : {Run{"gpt3-175b", "a100-80gb-sxm:128x8", 1536, 300e9, 140e12, 34},
                         Run{"megatron-1000b", "a100-80gb-sxm:384x8", 3072, 450e9, 163e12, 84}}) {
    const ModelSpec model = *ModelPreset(run.model);
    const ClusterSpec cluster = *PresetCluster(run.cluster);
    const Workload workload{run.global_batch, 2048, *ParsePrecision("fp16")};
    // The estimate of that paper: 8 T P / (n X), where P counts the recomputed forward.
    const double tokens = static_cast<double>(workload.global_batch) * 2048;
    const double step_time_s = 8 * tokens * static_cast<double>(ParameterCount(model)) /
                               (static_cast<double>(RankCount(cluster)) * run.flops_per_gpu_s);
    const auto estimate = EstimateTraining({.tokens = run.tokens}, {model, workload, cluster}, step_time_s);
    EXPECT_NEAR(*estimate.days, run.days, 0.5) << run.model;
  }
}

TEST_F(EstimateTrainingTest, CountsStepsHoursAndCost) {
  const auto estimate = Of({.tokens = 1048576.0 * 86400 + 1, .price_per_gpu_hour = 1.5});
  EXPECT_EQ(estimate.steps, 86401) << "the last step is not full";
  EXPECT_NEAR(*estimate.days, 2, 1e-9);
  EXPECT_NEAR(*estimate.gpu_hours, 2 * 24 * 512, 1e-4);
  EXPECT_NEAR(*estimate.cost, 1.5 * 2 * 24 * 512, 1e-4);
  EXPECT_NEAR(*estimate.cost_per_billion_tokens, *estimate.cost / *estimate.tokens * 1e9, 1e-6);
  EXPECT_FALSE(estimate.failures);
}

TEST_F(EstimateTrainingTest, GivesAPriceWithoutTokensPerBillion) {
  const auto estimate = Of({.price_per_gpu_hour = 2});
  EXPECT_FALSE(estimate.tokens || estimate.steps || estimate.days || estimate.gpu_hours || estimate.cost);
  EXPECT_NEAR(*estimate.cost_per_billion_tokens, 1e9 / 1048576 * 2 / 3600 * 512 * 2, 1e-6);
}

TEST_F(EstimateTrainingTest, SharesTheDefaultCheckpointOverTheNodes) {
  // bf16 parameters, and fp32 moments and master weights: 14 bytes.
  EXPECT_EQ(CheckpointBytes(model_, {.precision = *ParsePrecision("bf16")}),
            14.0 * static_cast<double>(ParameterCount(model_)));
  EXPECT_EQ(CheckpointBytes(model_, {.precision = *ParsePrecision("fp32")}),
            12.0 * static_cast<double>(ParameterCount(model_)));
  const auto estimate = Of({.tokens = 300e9, .node_mtbf_s = 5000 * 3600.0});
  ASSERT_TRUE(estimate.failures);
  EXPECT_NEAR(estimate.failures->checkpoint_s, 14 * 174.6 / 64, 0.1);
  EXPECT_EQ(estimate.failures->restart_s, 600);
  EXPECT_EQ(estimate.failures->job_mtbf_s, 5000 * 3600.0 / 64);
}

TEST_F(EstimateTrainingTest, CountsFailures) {
  const auto estimate =
      Of({.tokens = 300e9, .price_per_gpu_hour = 2, .node_mtbf_s = 64 * 6 * 3600.0, .checkpoint_s = 300.0});
  ASSERT_TRUE(estimate.failures);
  const FailureEstimate& failures = *estimate.failures;
  ASSERT_TRUE(failures.progresses);
  EXPECT_NEAR(failures.checkpoint_interval_s, 57 * 60, 30) << "figure 4 of Daly 2006";
  EXPECT_EQ(failures.slowdown,
            ExpectedSlowdown({6 * 3600.0, 300, 600}, BestCheckpointInterval({6 * 3600.0, 300, 600})));
  EXPECT_NEAR(*failures.days, *estimate.days * failures.slowdown, 1e-9);
  EXPECT_NEAR(*failures.gpu_hours, *failures.days * 24 * 512, 1e-6);
  EXPECT_NEAR(*failures.cost, *failures.gpu_hours * 2, 1e-6);
}

TEST_F(EstimateTrainingTest, WritesOneCheckpointInARunShorterThanTheInterval) {
  const auto estimate = Of({.tokens = 1048576.0 * 30, .node_mtbf_s = 1e12, .checkpoint_s = 6.0});
  ASSERT_TRUE(estimate.failures);
  EXPECT_DOUBLE_EQ(estimate.failures->checkpoint_interval_s, 60);
  EXPECT_NEAR(estimate.failures->slowdown, 1.1, 1e-6);
}

TEST_F(EstimateTrainingTest, SaysThatAJobDoesNotProgress) {
  const auto estimate = Of({.tokens = 300e9, .node_mtbf_s = 64 * 60.0, .checkpoint_s = 61.0});
  ASSERT_TRUE(estimate.failures);
  EXPECT_FALSE(estimate.failures->progresses);
  EXPECT_FALSE(estimate.failures->days);
}

}  // namespace
}  // namespace autocfg
