// Tests learning rates, clipping and weight decay of AdamW against formulas written out here.
#include "trainer/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_device.h"
#include "kernels/ops.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/memory_layout.h"

namespace autocfg::trainer {
namespace {

TEST(LearningRate, WarmsUpThenStaysOrFallsToTheMinimumAtTheLastStep) {
  LrSchedule s{.lr = 1.0, .min_lr = 0.2, .decay = LrDecay::kConstant, .warmup_steps = 4, .steps = 11};
  EXPECT_DOUBLE_EQ(LearningRate(s, 0), 0.25);
  EXPECT_DOUBLE_EQ(LearningRate(s, 3), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(s, 10), 1.0);
  s.decay = LrDecay::kCosine;
  EXPECT_DOUBLE_EQ(LearningRate(s, 1), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(s, 4), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(s, 7), 0.2 + 0.8 * 0.5);  // half way
  EXPECT_DOUBLE_EQ(LearningRate(s, 10), 0.2);
  s.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(LearningRate(s, 0), 1.0);
  s.steps = 4;
  s.warmup_steps = 9;  // the warm-up is longer than the run
  EXPECT_DOUBLE_EQ(LearningRate(s, 3), 4.0 / 9.0);
}

TEST(ClipFactor, OnlyScalesDown) {
  EXPECT_DOUBLE_EQ(ClipFactor(1.0, 0.5), 1.0);
  EXPECT_DOUBLE_EQ(ClipFactor(1.0, 4.0), 1.0 / (4.0 + 1e-6));
  EXPECT_DOUBLE_EQ(ClipFactor(0.0, 4.0), 1.0);
  EXPECT_DOUBLE_EQ(ClipFactor(0.5, 0.0), 1.0);
}

// Checks two steps of a whole rank element by element, with gradients set by hand.
TEST(UpdateParameters, FollowsAdamWWithDecayOnMatricesOnly) {
  TrainConfig c = test::SmallConfig();
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
  RankTrainer trainer(c, 0, 1, backend);
  auto stream = backend.device->CreateStream();
  Groups groups;
  PendingWorks pending;
  const Execution run{*backend.ops, *stream, groups, pending};
  const MemoryLayout& layout = trainer.layout();
  const AdamWOptions options{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.3};

  std::vector<std::vector<double>> want;
  for (const ParameterTensors& t : layout.parameter_tensors()) want.push_back(test::ToDoubles(t.value));
  std::vector<std::vector<double>> m(want.size()), v(want.size());
  for (int step = 0; step < 2; ++step) {
    const double lr = 0.1 / (step + 1), norm = 2 - step, scale = step == 0 ? 3 / (4 + 2e-6) : 1;
    for (std::size_t i = 0; i < want.size(); ++i) {
      m[i].resize(want[i].size());
      v[i].resize(want[i].size());
      double* grad = layout.parameter_tensors()[i].grad.As<double>();
      const bool matrix = layout.parameters()[i].global_shape.size() == 2;
      for (std::size_t k = 0; k < want[i].size(); ++k) {
        grad[k] = std::sin(static_cast<double>(k + i) + step);
        const double g = grad[k] * scale;
        m[i][k] = 0.8 * m[i][k] + 0.2 * g;
        v[i][k] = 0.9 * v[i][k] + 0.1 * g * g;
        const double m_hat = m[i][k] / (1 - std::pow(0.8, step + 1));
        const double v_hat = v[i][k] / (1 - std::pow(0.9, step + 1));
        want[i][k] -= lr * (matrix ? 0.3 : 0.0) * want[i][k] + lr * m_hat / (std::sqrt(v_hat) + 1e-3);
      }
    }
    *SquaredNormScalar(layout.workspace()).As<double>() = norm * norm;
    UpdateParams params = StepParams(options, {}, lr, step);
    SetClipping(1.5, layout, params);
    UpdateParameters(run, layout, OptimizerKind::kAdamW, params, options.weight_decay);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::vector<double> got = test::ToDoubles(layout.parameter_tensors()[i].value);
      for (std::size_t k = 0; k < got.size(); ++k) {
        ASSERT_NEAR(got[k], want[i][k], 1e-12)
            << layout.parameters()[i].name << " element " << k << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace autocfg::trainer
