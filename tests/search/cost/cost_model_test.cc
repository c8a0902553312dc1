#include "search/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/cost/closed_form.h"
#include "search/cost/pipeline_simulator.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using testing::AllOps;
using testing::Fp32;
using ::testing::HasSubstr;
using testing::LocalRanks;
using testing::SmallGpt;
using testing::SyntheticDevice;

// Seconds of an action by the stage's costs, on ranks that do not share cores.
double SecondsOf(const StageCosts& c, ActionKind kind) {
  switch (kind) {
    case ActionKind::kZeroGradients:
      return c.zero_s;
    case ActionKind::kForward:
      return c.forward_s;
    case ActionKind::kBackward:
      return c.backward_s;
    case ActionKind::kReduceGradients:
      return c.reduce_s;
    case ActionKind::kSumTiedEmbedding:
      return c.tied_s;
    case ActionKind::kReduceScalars:
      return c.norm_s + c.scalars_s;
    case ActionKind::kOptimizer:
      return c.UpdateSeconds();
    default:
      return c.p2p_s;
  }
}

// Random legal plans of random models on random links.
struct RandomCase {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
  SyntheticDevice device;
};
class RandomCases {
 public:
  explicit RandomCases(std::uint64_t seed) : random_(seed) {}
  RandomCase Next() {
    for (;;) {
      RandomCase c;
      c.model = SmallGpt(Pick({4, 8, 16, 24}), Pick({64, 128, 256, 512}), 8, Pick({512, 1024, 8192, 50257}));
      c.workload = Fp32(Pick({8, 16, 24, 32, 64}), Pick({32, 64}));
      c.plan.tp = Pick({1, 2, 4});
      c.plan.pp = Pick({1, 2, 4, 8});
      c.plan.dp = Pick({1, 2, 4});
      c.plan.micro_batch = Pick({1, 2, 4});
      if (c.plan.pp > 1 && Pick({0, 1}) == 1) c.plan.schedule = Schedule::kGPipe;
      if (Pick({0, 1}) == 1) c.plan.recompute = Recompute::kFull;
      c.device.link_alpha_s = std::pow(10.0, -6 + 3 * Uniform());
      c.device.link_bytes_per_s = std::pow(10.0, 8 + 2 * Uniform());
      if (!FindIllegality(c.model, c.workload, RankCount(c.plan), c.plan)) return c;
    }
  }
  std::int64_t Pick(std::vector<std::int64_t> from) { return from[random_() % from.size()]; }
  double Uniform() { return static_cast<double>(random_() % 1000000) / 1e6; }

 private:
  std::mt19937_64 random_;
};

CostModel ModelOf(const RandomCase& c, double ranks_per_core = 1) {
  return CostModel(c.model, c.workload, LocalRanks(RankCount(c.plan), ranks_per_core),
                   c.device.Measure(AllOps(c.model, c.workload, c.plan)));
}

// Over random plans the closed form is exact for GPipe and within 3% for 1F1B; half of all within 0.1%.
TEST(CostModel, ClosedFormAgainstSimulator) {
  RandomCases cases(11);
  std::vector<double> errors;
  for (int i = 0; i < 400; ++i) {
    const RandomCase c = cases.Next();
    CostModel costs = ModelOf(c);
    const double closed = costs.Predict(c.plan).step_time_s, simulated = costs.Simulate(c.plan).step_time_s;
    const double error = std::abs(closed / simulated - 1);
    EXPECT_LT(error, c.plan.schedule == Schedule::kGPipe ? 1e-9 : 0.03) << i;
    errors.push_back(error);
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.001);
}

// Stages as unequal as they come (each time drawn from a range of six to one, messages as long as forwards):
// GPipe within 1%, 1F1B within 10% and half within 1%. The closed form takes the longest of some paths, so it
// is never above.
TEST(CostModel, ClosedFormWithArbitraryStages) {
  RandomCases random(13);
  std::vector<double> errors;
  for (int i = 0; i < 600; ++i) {
    const std::int64_t pp = random.Pick({2, 4, 8, 16}), m = random.Pick({1, 2, 3, 5, 8, 13, 21, 32});
    std::vector<StageCosts> stages(static_cast<std::size_t>(pp));
    const double message = random.Pick({0, 1}) == 1 ? random.Uniform() : 0;
    for (StageCosts& s : stages) {
      s.forward_s = 0.2 + random.Uniform();
      s.backward_s = 0.4 + 2 * random.Uniform();
      s.p2p_s = message;
      s.reduce_s = random.Uniform();
      s.zero_s = 0.1 * random.Uniform();
      s.norm_s = 0.1 * random.Uniform();
      s.optimizer_s = s.zero_s + s.norm_s + 0.3 * random.Uniform();
    }
    stages.front().tied_s = stages.back().tied_s = random.Uniform();
    ParallelPlan plan;
    plan.pp = pp;
    plan.dp = 2;
    plan.schedule = i % 2 == 0 ? Schedule::kGPipe : Schedule::kOneFOneB;
    const auto step =
        SimulateProgram(Lower(SmallGpt(pp), Fp32(2 * m, 16), plan), [&](std::int32_t rank, const Action& a) {
          return SecondsOf(stages[static_cast<std::size_t>(rank / 2)], a.kind);
        });
    ASSERT_TRUE(step.ok()) << step.status();
    const double error = ClosedForm(stages, plan.schedule, m, 1).Total() / step->step_time_s - 1;
    EXPECT_LT(error, 1e-9) << i;
    EXPECT_GT(error, plan.schedule == Schedule::kGPipe ? -0.01 : -0.1) << i;
    errors.push_back(-error);
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.01);
}

// Simulate() walks one rank of each tensor group and two of each data group; all ranks give the same.
TEST(CostModel, FewRanksStandForAll) {
  RandomCases cases(17);
  for (int i = 0; i < 40; ++i) {
    const RandomCase c = cases.Next();
    CostModel costs = ModelOf(c);
    std::vector<StageCosts> stages;
    for (std::int64_t s = 0; s < c.plan.pp; ++s) stages.push_back(costs.CostsOf(c.plan, s));
    const auto full =
        SimulateProgram(Lower(c.model, c.workload, c.plan), [&](std::int32_t rank, const Action& a) {
          return SecondsOf(stages[static_cast<std::size_t>(rank / (c.plan.tp * c.plan.dp))], a.kind);
        });
    ASSERT_TRUE(full.ok()) << full.status();
    EXPECT_DOUBLE_EQ(costs.Simulate(c.plan).step_time_s, full->step_time_s);
  }
}

TEST(CostModel, StageCostsAreTheSumsOfTheirOps) {
  RandomCases cases(19);
  for (int i = 0; i < 60; ++i) {
    const RandomCase c = cases.Next();
    CostModel costs = ModelOf(c);
    for (std::int64_t stage = 0; stage < c.plan.pp; ++stage) {
      const StageCosts s = costs.CostsOf(c.plan, stage);
      const auto sum = [&](ActionKind kind, bool tensor_only = false) {
        double seconds = 0;
        for (const OpDesc& op :
             ActionOps(c.model, c.workload, c.plan, stage, Action{.kind = kind, .after = {}})) {
          if (!tensor_only || op.group == CommGroup::kTensor) seconds += c.device.Seconds(op);
        }
        return seconds;
      };
      const auto near = [](double a, double b) { EXPECT_NEAR(a, b, 1e-9 * b); };
      near(s.forward_s, sum(ActionKind::kForward));
      near(s.backward_s, sum(ActionKind::kBackward));
      near(s.tp_forward_s, sum(ActionKind::kForward, true));
      near(s.tp_backward_s + s.tp_recompute_s, sum(ActionKind::kBackward, true));
      near(s.zero_s, sum(ActionKind::kZeroGradients));
      near(s.norm_s + s.scalars_s, sum(ActionKind::kReduceScalars));
      near(s.UpdateSeconds(), sum(ActionKind::kOptimizer));
      near(s.reduce_s, sum(ActionKind::kReduceGradients));
      near(s.tied_s, sum(ActionKind::kSumTiedEmbedding));
      if (c.plan.pp > 1) near(s.p2p_s, sum(ActionKind::kSendActivation));
    }
  }
}

TEST(CostModel, BreakdownAddsUp) {
  RandomCases cases(23);
  for (int i = 0; i < 100; ++i) {
    const RandomCase c = cases.Next();
    CostModel costs = ModelOf(c, i % 2 == 0 ? 1 : 2);
    for (const Prediction& p : {costs.Predict(c.plan), costs.Simulate(c.plan)}) {
      EXPECT_NEAR(p.breakdown.Total(), p.step_time_s, 1e-9 * p.step_time_s);
      for (double part :
           {p.breakdown.compute, p.breakdown.recompute, p.breakdown.tp_comm, p.breakdown.pp_comm,
            p.breakdown.dp_comm, p.breakdown.bubble, p.breakdown.optimizer, p.breakdown.overhead}) {
        EXPECT_GE(part, 0);
      }
      EXPECT_GT(p.breakdown.compute, 0);
      EXPECT_EQ(p.breakdown.recompute > 0, c.plan.recompute == Recompute::kFull);
      EXPECT_EQ(p.breakdown.tp_comm > 0, c.plan.tp > 1);
      EXPECT_EQ(p.breakdown.dp_comm > 0, c.plan.dp > 1 || c.plan.pp > 1);
      EXPECT_EQ(p.step_time_low_s, p.step_time_s);
      EXPECT_EQ(p.step_time_high_s, p.step_time_s);
    }
  }
}

// Two stages on one core do their work one after the other: no bubble, and no gain over what the core can do.
TEST(CostModel, RanksThatShareCores) {
  std::vector<StageCosts> stages(2);
  for (StageCosts& s : stages) {
    s.forward_s = 1;
    s.backward_s = 2;
  }
  EXPECT_DOUBLE_EQ(ClosedForm(stages, Schedule::kOneFOneB, 4, 1).Total(), 5 * 3);
  EXPECT_DOUBLE_EQ(ClosedForm(stages, Schedule::kOneFOneB, 4, 2).Total(), 4 * 3);
  // One microbatch: the ranks take turns, each at twice the measured speed.
  EXPECT_DOUBLE_EQ(ClosedForm(stages, Schedule::kOneFOneB, 1, 2).Total(), 2 * 1.5);
  // One stage, every rank always at work: as measured.
  EXPECT_DOUBLE_EQ(ClosedForm(std::span(stages).first(1), Schedule::kOneFOneB, 4, 2).Total(), 4 * 3);

  RandomCases cases(29);
  for (int i = 0; i < 100; ++i) {
    const RandomCase c = cases.Next();
    CostModel alone = ModelOf(c), shared = ModelOf(c, 4);
    EXPECT_LE(shared.Predict(c.plan).step_time_s, alone.Predict(c.plan).step_time_s * (1 + 1e-9));
    EXPECT_NEAR(shared.Predict(c.plan).step_time_s / shared.Simulate(c.plan).step_time_s, 1, 0.03) << i;
  }
}

TEST(CostModel, SaysWhatDoesNotFit) {
  const ModelSpec model = SmallGpt(8, 256, 8, 8192);
  const Workload workload = Fp32(64, 64);
  ParallelPlan plan;
  plan.pp = 2;
  plan.schedule = Schedule::kGPipe;
  const std::int64_t needs = WorstRankMemory(model, workload, plan).Total();
  const OpTimes times = SyntheticDevice().Measure(AllOps(model, workload, plan));

  CostModel fits(model, workload, LocalRanks(2, 1, needs + 100), times, 100);
  EXPECT_TRUE(fits.Predict(plan).feasible);
  EXPECT_EQ(fits.Predict(plan).memory.Total(), needs + 100);
  EXPECT_EQ(fits.Predict(plan).reason, "");

  CostModel short_of(model, workload, LocalRanks(2, 1, needs - 1), times);
  const Prediction p = short_of.Predict(plan);
  EXPECT_FALSE(p.feasible);
  EXPECT_EQ(p.capacity_bytes, needs - 1);
  EXPECT_THAT(p.reason, HasSubstr("needs 1 B (1 bytes) more than"));
  EXPECT_THAT(p.reason, HasSubstr("activations are the largest region"));
  EXPECT_GT(p.step_time_s, 0) << "a plan that does not fit is still timed";
}

}  // namespace
}  // namespace autocfg
