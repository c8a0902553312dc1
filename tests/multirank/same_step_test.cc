// The engine's main test: for one model, seed and batch, every layout must make the same steps. Ranks are
// threads that communicate over UCX. tests/multirank/processes_test.cc runs some of the layouts as real
// processes; tests/multirank/same_step_parts_test.cc covers every kind of model and plan, pair by pair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "search/plan/plan_text.h"
#include "tests/support/plan_values.h"
#include "tests/trainer/same_outcome.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

using test::ExpectSameSteps;
using test::ExpectSameWeights;
using test::RunAsThreads;
using test::SmallConfig;
using test::TrainedRun;

// The reference run.
const TrainedRun& OneRank(const char* precision) {
  static const auto make = [](const char* name) {
    TrainConfig c = SmallConfig();
    c.workload.precision = *ParsePrecision(name);
    return RunAsThreads(c);
  };
  static const TrainedRun fp64 = make("fp64");
  static const TrainedRun fp32 = make("fp32");
  return std::string(precision) == "fp64" ? fp64 : fp32;
}

using Layout = std::tuple<int, int, int>;  // tp, pp, dp

std::vector<Layout> Layouts() {
  std::vector<Layout> layouts;
  for (const int tp : {1, 2, 4}) {
    for (const int pp : {1, 2, 4}) {
      for (const int dp : {1, 2, 4}) {
        if (tp * pp * dp <= 8) layouts.emplace_back(tp, pp, dp);
      }
    }
  }
  return layouts;
}

class SameStep : public ::testing::TestWithParam<Layout> {
 protected:
  // Calls `body` for every schedule, recomputation and micro batch of the layout.
  void ForEachPlan(const std::function<void(const ParallelPlan&)>& body) {
    const auto [tp, pp, dp] = GetParam();
    for (const Schedule schedule : test::PredictedPlainSchedules()) {
      for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
        for (const int micro_batch : {1, 2}) {
          SCOPED_TRACE(::testing::Message()
                       << Name(schedule) << " recompute=" << (recompute == Recompute::kFull ? "full" : "none")
                       << " mbs=" << micro_batch);
          body({{.tp = tp, .pp = pp, .dp = dp},
                {.micro_batch = micro_batch, .recompute = recompute},
                {.schedule = schedule}});
        }
      }
    }
  }
};

TEST_P(SameStep, InDoublePrecision) {
  ForEachPlan([](const ParallelPlan& plan) {
    TrainConfig c = SmallConfig();
    c.plan = plan;
    const TrainedRun outcome = RunAsThreads(c);
    EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
    ExpectSameSteps(OneRank("fp64"), outcome, 1e-9);
    ExpectSameWeights(c.model, OneRank("fp64"), outcome, 1e-9);
  });
}

TEST_P(SameStep, InSinglePrecision) {
  ForEachPlan([](const ParallelPlan& plan) {
    TrainConfig c = SmallConfig();
    c.workload.precision = *ParsePrecision("fp32");
    c.plan = plan;
    const TrainedRun outcome = RunAsThreads(c);
    EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
    ExpectSameSteps(OneRank("fp32"), outcome, 1e-5);
  });
}

std::string LayoutName(const ::testing::TestParamInfo<Layout>& info) {
  const auto [tp, pp, dp] = info.param;
  return "tp" + std::to_string(tp) + "pp" + std::to_string(pp) + "dp" + std::to_string(dp);
}

INSTANTIATE_TEST_SUITE_P(Layouts, SameStep, ::testing::ValuesIn(Layouts()), LayoutName);

// Unfused attention, with its probabilities kept, recomputed alone, and recomputed with the layer, in all
// layers and in the first of each stage.
TEST(SameStepOfUnfusedAttention, MatchesFusedOnOneRank) {
  for (const auto& [tp, pp, dp] : {Layout{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {4, 2, 1}, {2, 2, 2}}) {
    for (const auto& [recompute, layers] : {std::pair{Recompute::kNone, 0},
                                            {Recompute::kSelective, 0},
                                            {Recompute::kFull, 0},
                                            {Recompute::kFull, 1}}) {
      TrainConfig c = SmallConfig();
      c.plan = {{.tp = tp, .pp = pp, .dp = dp},
                {.recompute = recompute, .attention = Attention::kUnfused},
                {.recompute_layers = layers}};
      SCOPED_TRACE(PlanText(c.plan));
      const TrainedRun outcome = RunAsThreads(c);
      EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
      ExpectSameSteps(OneRank("fp64"), outcome, 1e-9);
      ExpectSameWeights(c.model, OneRank("fp64"), outcome, 1e-9);
    }
  }
}

// Checks that the comparison is meaningful: clipping is active and the weights change.
TEST(SameStepSetup, ClippingIsActiveAndWeightsChange) {
  const TrainedRun& one = OneRank("fp64");
  const auto clipped = std::count_if(one.steps.begin(), one.steps.end(), [](const StepResult& s) {
    return s.grad_norm > SmallConfig().clip_norm;
  });
  EXPECT_GE(clipped, 3);
  EXPECT_LT(one.steps.back().loss, 0.95 * one.steps.front().loss);
}

// Checks that clipping, decay and the schedule change the result. If one of them were ignored, agreement
// between layouts would not reveal it.
TEST(SameStepSetup, EveryOptimizerOptionHasAnEffect) {
  TrainConfig c = SmallConfig();
  c.clip_norm = 0;
  EXPECT_NE(RunAsThreads(c).steps.back().loss, OneRank("fp64").steps.back().loss);
  c = SmallConfig();
  c.adamw.weight_decay = 0;
  EXPECT_NE(RunAsThreads(c).steps.back().loss, OneRank("fp64").steps.back().loss);
  c = SmallConfig();
  c.lr.decay = LrDecay::kConstant;
  EXPECT_NE(RunAsThreads(c).steps.back().loss, OneRank("fp64").steps.back().loss);
}

}  // namespace
}  // namespace autocfg::trainer
