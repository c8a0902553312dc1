// Checks that the gradient of a step is that of its reported loss: central differences along a random
// direction of each parameter, for every style of model and kind of attention.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <tuple>

#include "search/plan/plan_options.h"
#include "tests/trainer/model_styles.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

// One rank after its first step, from weights moved by `distance` along `direction` in parameter `moved`. Its
// optimizer changes nothing.
class OneStep {
 public:
  explicit OneStep(const TrainConfig& config) : rendezvous_(CreateLocalRendezvous(1)) {
    backend_ = CreateBackend(EngineDevice::kCpu, *rendezvous_[0]);
    trainer_.emplace(config, 0, 1, backend_);
  }

  const MemoryLayout& layout() const { return trainer_->layout(); }

  double LossWith(std::size_t moved, double distance, const std::vector<double>& direction) {
    double* values = layout().parameter_tensors()[moved].value.As<double>();
    for (std::size_t i = 0; i < direction.size(); ++i) values[i] += distance * direction[i];
    return trainer_->Step().loss;
  }

 private:
  std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
  Backend backend_;
  std::optional<RankTrainer> trainer_;
};

class GradientOf : public ::testing::TestWithParam<std::tuple<ModelSpec, Attention>> {};

TEST_P(GradientOf, EveryParameterMatchesFiniteDifferences) {
  TrainConfig c;
  c.model = std::get<ModelSpec>(GetParam());
  test::SetLayers(c.model, 2);
  c.model.init_std = 0.4;  // keeps gradients well above the rounding error of a difference
  c.workload = {.global_batch = 2, .seq_len = 6, .precision = *ParsePrecision("fp64")};
  c.plan.attention = std::get<Attention>(GetParam());
  if (IsUnfused(c.plan)) {
    c.plan.recompute = Recompute::kSelective;
    c.plan.recompute_parts = {LayerPart::kCoreAttention, LayerPart::kMlp, LayerPart::kNorm};
  } else {
    c.plan.recompute = Recompute::kFull;
    c.plan.recompute_layers = 1;
  }
  c.lr = {.lr = 0, .steps = 1};
  c.seed = 3;
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;

  OneStep here(c);
  here.LossWith(0, 0, {});
  const std::vector<Parameter>& parameters = here.layout().parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    std::vector<double> direction(test::ToDoubles(here.layout().parameter_tensors()[p].value).size(), 0.0);
    ForEachRun(parameters[p], [&](std::int64_t local, std::int64_t, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k)
        direction[static_cast<std::size_t>(local + k)] = normal(random);
    });
    const std::vector<double> gradient = test::ToDoubles(here.layout().parameter_tensors()[p].grad);
    double expected = 0;
    for (std::size_t k = 0; k < gradient.size(); ++k) expected += gradient[k] * direction[k];
    constexpr double kDistance = 1e-5;
    const double difference =
        (OneStep(c).LossWith(p, kDistance, direction) - OneStep(c).LossWith(p, -kDistance, direction)) /
        (2 * kDistance);
    EXPECT_NEAR(expected, difference, 1e-7 + 1e-6 * std::abs(expected)) << parameters[p].name;
    EXPECT_GT(std::abs(expected), 1e-5) << parameters[p].name << ": the direction has no effect";
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, GradientOf,
                         ::testing::Combine(::testing::ValuesIn(test::ModelStyles()),
                                            ::testing::Values(Attention::kFused, Attention::kUnfused)),
                         [](const auto& info) {
                           return std::get<ModelSpec>(info.param).name + "_" +
                                  std::string(Name(std::get<Attention>(info.param)));
                         });

}  // namespace
}  // namespace autocfg::trainer
