// Runs with narrow types of states: layouts differ from one rank by no more than the rounding of the types,
// and a run that is stopped and resumed continues to the last bit. Ranks are threads that communicate over
// UCX.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "search/plan/plan_text.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/model_styles.h"
#include "tests/trainer/same_outcome.h"
#include "tests/trainer/stopped_runs.h"

namespace autocfg::trainer {
namespace {

using test::ModelStyles;
using test::RunAsThreads;
using test::RunUntil;
using test::StopAndResume;
using test::TrainedRun;

TrainConfig Steps(std::size_t style, const std::string& precision, const Optimizer& optimizer,
                  std::int64_t steps) {
  TrainConfig c;
  c.model = ModelStyles().at(style);
  c.model.layers = 4;
  c.workload = {8, 4, *ParsePrecision(precision), optimizer};
  c.lr = {.lr = 1e-2, .min_lr = 1e-3, .decay = LrDecay::kCosine, .warmup_steps = 0, .steps = steps};
  c.clip_norm = 0.5;
  c.seed = 5;
  return c;
}

constexpr const char* kPlans[] = {"tp=2,pp=1,dp=2,mbs=1",        "tp=1,pp=2,dp=2,mbs=1,zero=1",
                                  "tp=2,pp=2,dp=1,mbs=2,sp=1",   "tp=1,pp=2,dp=2,mbs=1,zero=2,grad_overlap=1",
                                  "tp=2,pp=1,dp=2,mbs=2,zero=3", "tp=1,pp=4,dp=1,mbs=1,schedule=zb-h1"};

// The gradient of a parameter is a sum over eight microbatches and at most four ranks, rounded to bf16 each
// time that one is added: its norm changes by at most 12 roundings of 2^-9. SGD moves the weights by the
// learning rate times the clipped gradient, so that the next loss changes by that much of lr |g|^2.
TEST(StateTypes, LayoutsDifferByRoundingAlone) {
  constexpr double kRounding = 12 * 0x1p-9, kFp32 = 1e-5, kLr = 1e-2, kClip = 0.5;
  double most = 0;
  for (const std::size_t style : {0, 1, 2}) {
    TrainConfig c = Steps(style, "fp32:grads=bf16,moments=bf16", {OptimizerKind::kSgd, 0.9}, 2);
    const TrainedRun one = RunAsThreads(c);
    for (const char* plan : kPlans) {
      SCOPED_TRACE(fmt::format("{}: {}", c.model.name, plan));
      c.plan = *ParsePlanText(plan);
      const TrainedRun run = RunAsThreads(c);
      EXPECT_THAT(run.differences, ::testing::IsEmpty());
      ASSERT_EQ(run.steps.size(), 2u);
      for (std::size_t s = 0; s < 2; ++s) {
        const double norm = one.steps[s].grad_norm, loss = one.steps[s].loss;
        const double moved = s == 0 ? 0 : kLr * kClip * norm * kRounding;
        EXPECT_NEAR(run.steps[s].grad_norm, norm, (kRounding + kFp32) * norm) << "step " << s;
        EXPECT_NEAR(run.steps[s].loss, loss, moved + kFp32 * loss) << "step " << s;
        most = std::max(most, std::abs(run.steps[s].grad_norm / norm - 1));
      }
    }
  }
  EXPECT_GT(most, 10 * kFp32) << "nothing was rounded";
}

TEST(StateTypes, ResumedRunsContinueToTheLastBit) {
  const Optimizer adamw, plain{.kind = OptimizerKind::kSgd}, heavy{OptimizerKind::kSgd, 0.9};
  const std::pair<const char*, Optimizer> kinds[] = {{"fp32:grads=bf16,moments=bf16", adamw},
                                                     {"fp32:moments=bf16", heavy},
                                                     {"fp32:grads=bf16", plain},
                                                     {"fp64", heavy}};
  for (const auto& [precision, optimizer] : kinds) {
    for (const char* plan : kPlans) {
      SCOPED_TRACE(fmt::format("{} {}: {}", precision, OptimizerText(optimizer), plan));
      TrainConfig c = Steps(1, precision, optimizer, 4);
      c.plan = *ParsePlanText(plan);
      const TempDir directory;
      const TrainedRun whole = RunUntil(c, c.lr.steps);
      const TrainedRun resumed = StopAndResume(c, c, 2, directory.File("ckpt"));
      ASSERT_EQ(resumed.steps.size(), whole.steps.size());
      for (std::size_t s = 0; s < whole.steps.size(); ++s) {
        EXPECT_EQ(resumed.steps[s].loss, whole.steps[s].loss) << "step " << s;
        EXPECT_EQ(resumed.steps[s].grad_norm, whole.steps[s].grad_norm) << "step " << s;
      }
      EXPECT_EQ(resumed.weights, whole.weights);
    }
  }
}

}  // namespace
}  // namespace autocfg::trainer
