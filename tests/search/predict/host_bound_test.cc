// Steps that the host of a framework binds, against what was measured of them.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "search/plan/plan_text.h"
#include "search/predict/predict_plan.h"
#include "search/predict/prediction_interval.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

constexpr double kWidest = 3;  // high over low

PlanPrediction PredictedOf(const char* engine, const char* cluster_name, ModelSpec model, const char* plan,
                           std::int64_t batch, std::int64_t seq_len) {
  ClusterSpec cluster = *PresetCluster(cluster_name);
  cluster.engine = *EngineNamed(engine);
  FillDefaults(model, seq_len);
  const auto predicted =
      PredictPlan({{model, {batch, seq_len, *ParsePrecision("bf16")}, cluster}, *ParsePlanText(plan)});
  EXPECT_TRUE(predicted.ok()) << predicted.status();
  return predicted.value_or(PlanPrediction());
}

struct MeasuredStep {
  const char* cluster;
  const char* plan;
  double seconds;
};

// Megatron-LM's own functional tests (golden_values_dev_dgx_h100.json and golden_values_lts_dgx_a100.json of
// tests/functional_tests/test_cases/gpt, 2025 and 2026): 12 layers of 512, medians.
constexpr MeasuredStep kMegatronSteps[] = {
    {"h100-sxm:1x8", "dp=8,mbs=4,zero=1", 0.0822},
    {"h100-sxm:1x8", "tp=4,dp=2,mbs=4,zero=1", 0.1951},
    {"h100-sxm:1x8", "tp=2,dp=4,mbs=4,zero=1", 0.1658},
    {"h100-sxm:1x8", "pp=4,dp=2,mbs=4", 0.1217},
    {"h100-sxm:1x8", "pp=4,dp=2,mbs=4,vpp=3", 0.1158},
    {"a100-80gb-sxm:1x8", "dp=8,mbs=4,zero=1", 0.0899},
    {"a100-80gb-sxm:1x8", "tp=2,dp=4,mbs=4,zero=1", 0.1566},
    {"a100-80gb-sxm:1x8", "tp=4,dp=2,mbs=4,zero=1", 0.2782},
    {"a100-80gb-sxm:1x8", "pp=4,dp=2,mbs=4", 0.1430},
};

TEST(HostBound, StepsOfMegatronsOwnTestsAreInTheInterval) {
  for (const MeasuredStep& run : kMegatronSteps) {
    const ModelSpec model{.layers = 12, .hidden = 512, .heads = 8, .vocab = 50257, .dropout = 0.1};
    const Prediction step = PredictedOf("megatron", run.cluster, model, run.plan, 32, 1024).prediction;
    EXPECT_LT(step.step_time_low_s, run.seconds) << run.cluster << " " << run.plan;
    EXPECT_GT(step.step_time_high_s, run.seconds) << run.cluster << " " << run.plan;
    EXPECT_LE(step.step_time_high_s / step.step_time_low_s, kWidest + 1e-9) << run.cluster << " " << run.plan;
  }
}

// Runs that nanotron's authors published with their playbook of 2025, with one sequence a microbatch: what a
// layer's forward and backward of a microbatch take does not depend on tp or on the model.
TEST(HostBound, LayersOfNanotronTakeTheHostsTime) {
  struct Case {
    std::int64_t layers, hidden, heads, kv_heads, ffn_hidden;
    const char* plan;
    double seconds;
  };
  for (const Case& run : {Case{16, 2048, 32, 8, 8192, "tp=4,dp=2,mbs=1,sp=1", 9.12},
                          Case{16, 2048, 32, 8, 8192, "tp=8,mbs=1,sp=1", 18.98},
                          Case{28, 3072, 24, 8, 8192, "tp=8,mbs=1,sp=1", 31.63}}) {
    ModelSpec model = *ModelPreset("llama3-8b");
    model.layers = run.layers;
    model.hidden = run.hidden;
    model.heads = run.heads;
    model.kv_heads = run.kv_heads;
    model.head_dim = run.hidden / run.heads;
    model.ffn_hidden = run.ffn_hidden;
    const PlanPrediction predicted = PredictedOf("nanotron", "h100-sxm:1x8", model, run.plan, 256, 4096);
    EXPECT_NEAR(predicted.prediction.step_time_s / run.seconds, 1, 0.25) << run.layers << " " << run.plan;
    ASSERT_EQ(predicted.notes.size(), 1u) << run.plan;
    EXPECT_NE(predicted.notes.front().find("launch-bound"), std::string::npos) << predicted.notes.front();
  }
}

// The margins follow the share of a step that waits for the host.
TEST(HostBound, TheIntervalOfATypicalHostFollowsItsShare) {
  const auto margins = [](const char* engine, const char* plan) {
    const Prediction step =
        PredictedOf(engine, "h100-sxm:1x8", *ModelPreset("llama3-8b"), plan, 64, 4096).prediction;
    return std::pair(1 - step.step_time_low_s / step.step_time_s,
                     step.step_time_high_s / step.step_time_s - 1);
  };
  const auto [large_below, large_above] = margins("megatron", "tp=1,dp=8,mbs=1");
  EXPECT_NEAR(large_below, kUncalibratedBelow, 0.02);
  EXPECT_NEAR(large_above, kUncalibratedAbove, 0.10);
  const auto [small_below, small_above] = margins("megatron", "tp=8,mbs=1");
  EXPECT_GT(small_below, large_below);
  EXPECT_GT(small_above, large_above);
  const auto [bound_below, bound_above] = margins("megatron:host_op_s=1", "tp=8,mbs=1");
  EXPECT_NEAR(bound_below, kTypicalHostBelow, 0.01);
  EXPECT_NEAR(bound_above, kTypicalHostAbove, 0.01);
}

}  // namespace
}  // namespace autocfg
