// What the host takes to issue ops: a device whose times are round, against seconds counted by hand.
//
// SmallGpt has biases, no gate, learned positions and one table for both ends. On one GPU a layer issues 7
// ops forward, 6 of them when it recomputes, and 11 backward; the embedding 2 and 2, the head 3 and 3. Over a
// tensor group a layer has 9, 7 and 11, for two additions of the residual forward and one when it recomputes;
// the embedding 2 and 2, the head 5 and 4. Messages count no issue.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_times/measured_on_links.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::RandomRuns;
using test::SmallGpt;

// Attention takes 10 s forward and 20 s backward, each message a second, all else nothing.
class RoundTimes final : public OpTimeModel {
 public:
  explicit RoundTimes(double host_op_s) : host_op_s_(host_op_s) {}
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    if (IsCommunication(op.kind)) return 1;
    return op.kind == OpKind::kAttentionForward ? 10 : op.kind == OpKind::kAttentionBackward ? 20 : 0;
  }
  double HostOpSeconds() const override { return host_op_s_; }

 private:
  const double host_op_s_;
};

CostModel Costs(const ModelSpec& model, const Workload& workload, double host_op_s) {
  return CostModel({model, workload, LocalRanks(1024)}, std::make_shared<const RoundTimes>(host_op_s));
}

// The rule of hosted_time.h, written out.
double Both(double device_s, double host_s) {
  return std::pow(std::pow(device_s, 4) + std::pow(host_s, 4), 0.25);
}

TEST(HostTime, DeviceAndHostInEveryStage) {
  const ModelSpec model = SmallGpt(8);
  const ParallelPlan plan{{.pp = 2}, {.recompute = Recompute::kFull}};
  const auto stage = [&](double host_op_s, std::size_t index) {
    CostModel costs = Costs(model, Fp32(4, 16), host_op_s);
    return costs.CostsOf(plan).stages[index];
  };
  // Four layers: 40 s forward, 40 + 80 s backward.
  EXPECT_EQ(stage(0, 0).forward_s, 40);
  EXPECT_EQ(stage(0, 0).backward_s, 120);
  EXPECT_DOUBLE_EQ(stage(1, 0).forward_s, Both(40, 30)) << "2 and 4 x 7";
  EXPECT_DOUBLE_EQ(stage(2, 0).forward_s, Both(40, 60));
  EXPECT_DOUBLE_EQ(stage(2, 1).forward_s, Both(40, 62)) << "31 issues: 4 x 7 and 3";
  EXPECT_DOUBLE_EQ(stage(1, 0).backward_s, Both(120, 70)) << "70 issues: 4 x 17 and 2";
  EXPECT_DOUBLE_EQ(stage(2, 0).backward_s, Both(120, 140));
  EXPECT_DOUBLE_EQ(stage(2, 1).backward_s, Both(120, 142)) << "71 issues: 3 and 4 x 17";
  EXPECT_EQ(stage(2, 1).recompute_s, 40) << "what the device recomputes is as long as it was";
}

TEST(HostTime, MessagesOverTheTensorGroupCountNoIssue) {
  const ModelSpec model = SmallGpt(8);
  const ParallelPlan plan{{.tp = 2, .pp = 2}};
  const auto stage = [&](double host_op_s, std::size_t index) {
    CostModel costs = Costs(model, Fp32(4, 16), host_op_s);
    return costs.CostsOf(plan).stages[index];
  };
  EXPECT_DOUBLE_EQ(stage(1, 0).forward_s, Both(49, 38)) << "40 s and 9 messages; 38 issues: 2 and 4 x 9";
  EXPECT_DOUBLE_EQ(stage(2, 0).forward_s, Both(49, 76));
  EXPECT_EQ(stage(2, 0).tp_forward_s, 9) << "the messages are no longer; the device waits";
  EXPECT_DOUBLE_EQ(stage(2, 1).forward_s, Both(50, 82)) << "40 s and 10 messages; 41 issues: 4 x 9 and 5";
  EXPECT_DOUBLE_EQ(stage(2, 0).backward_s, Both(88, 92)) << "80 s and 8 messages; 46 issues: 4 x 11 and 2";
  EXPECT_DOUBLE_EQ(stage(2, 1).backward_s, Both(89, 96)) << "80 s and 9 messages; 48 issues: 4 and 4 x 11";
}

// What a calibration measured of the host reaches the predictions, also on several machines.
TEST(HostTime, MeasuredByACalibration) {
  const ModelSpec model = SmallGpt(2);
  const OpDesc product{.dims = {64, 64, 64}}, fill{.kind = OpKind::kFill, .dims = {64}};
  const OpTimes none({{product, 1e-9}, {fill, 1e-9}});
  const OpTimes some({{product, 1e-9, 0.75}, {fill, 1e-9, 0.25}});
  CostModel free({model, Fp32(3, 16), LocalRanks(1)}, none), bound({model, Fp32(3, 16), LocalRanks(1)}, some);
  EXPECT_LT(free.Predict({}).step_time_s, 1e-3);
  EXPECT_NEAR(bound.Predict({}).step_time_s, 0.5 * 3 * (19 + 27), 1e-3) << "forwards and backwards";
  const auto cluster = PresetCluster("a100-80gb-sxm:2x8");
  const auto on_links = MeasuredOnLinks::Create(some, *cluster);
  ASSERT_TRUE(on_links.ok()) << on_links.status();
  EXPECT_EQ((*on_links)->HostOpSeconds(), 0.5);
}

// One rank does one thing after the other: three microbatches of two layers, whose forward is 19 issues and
// backward 27, or 39 with recomputation.
TEST(HostTime, ByHandInEveryPrediction) {
  const ModelSpec model = SmallGpt(2);
  struct Case {
    double host_op_s;
    Recompute recompute;
    double compute_s, recompute_s;
  };
  for (const Case& c : {Case{0, Recompute::kNone, 3.0 * (20 + 40), 0},
                        Case{1, Recompute::kNone, 3.0 * (Both(20, 19) + Both(40, 27)), 0},
                        Case{2, Recompute::kNone, 3.0 * (Both(20, 38) + Both(40, 54)), 0},
                        Case{1, Recompute::kFull, 3.0 * (Both(20, 19) + Both(60, 39) - 20), 3.0 * 20},
                        Case{2, Recompute::kFull, 3.0 * (Both(20, 38) + Both(60, 78) - 20), 3.0 * 20}}) {
    SCOPED_TRACE(c.host_op_s);
    CostModel costs = Costs(model, Fp32(3, 16), c.host_op_s);
    const ParallelPlan plan{{}, {.recompute = c.recompute}};
    for (const Prediction& p : {costs.Estimate(plan), costs.Predict(plan)}) {
      EXPECT_DOUBLE_EQ(p.step_time_s, c.compute_s + c.recompute_s);
      EXPECT_DOUBLE_EQ(p.breakdown.compute, c.compute_s);
      EXPECT_DOUBLE_EQ(p.breakdown.recompute, c.recompute_s);
    }
    EXPECT_DOUBLE_EQ(costs.Trace(plan).step_time_s, c.compute_s + c.recompute_s);
    // The same asked of a model that has another host's time.
    CostModel other = Costs(model, Fp32(3, 16), 7);
    EXPECT_DOUBLE_EQ(other.EstimatedSeconds(plan, c.host_op_s), c.compute_s + c.recompute_s);
    const bool full = c.recompute == Recompute::kFull;
    EXPECT_DOUBLE_EQ(other.Estimate(plan).step_time_s,
                     3 * (Both(20, 7 * 19) + (full ? Both(60, 7 * 39) : Both(40, 7 * 27))));
  }
}

// Over random plans of random models: each forward and backward has as many issues as the program has
// computes; never faster for it; the closed form as close to the timer as without.
TEST(HostTime, CountsTheOpsOfTheProgram) {
  RandomRuns random(97, {.output_ops = false});
  int bound = 0, free = 0;
  for (int i = 0; i < 300; ++i) {
    const auto run = random.Next();
    const double host_op_s = i % 2 == 0 ? 0.8 : 2;  // a layer of 10 s forward has 7 ops or a few more
    CostModel none = Costs(run.model, run.workload, 0), some = Costs(run.model, run.workload, host_op_s);
    const std::vector<StageCosts> device = none.CostsOf(run.plan).stages;
    const std::vector<StageCosts> stages = some.CostsOf(run.plan).stages;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto issues = [&](ActionKind kind) {
        const Action action{.kind = kind, .stage = static_cast<std::int32_t>(s)};
        const auto rank = PipelineRankOf(run.plan, action.stage);
        double computes = 0;
        for (const OpDesc& op : ActionOps(run, rank, action)) computes += IsCommunication(op.kind) ? 0 : 1;
        return host_op_s * computes;
      };
      ASSERT_DOUBLE_EQ(stages[s].forward_s, Both(device[s].forward_s, issues(ActionKind::kForward))) << i;
      const bool splits = SplitsBackward(run.plan);
      const double backward = issues(splits ? ActionKind::kInputGradient : ActionKind::kBackward);
      ASSERT_DOUBLE_EQ(stages[s].backward_s, Both(device[s].backward_s, backward)) << i;
      const double weights = splits ? issues(ActionKind::kWeightGradient) : 0;
      ASSERT_DOUBLE_EQ(stages[s].weight_s, Both(device[s].weight_s, weights)) << i;
      ++(issues(ActionKind::kForward) > device[s].forward_s ? bound : free);
    }
    const double closed = some.Estimate(run.plan).step_time_s;
    const double timed = some.Predict(run.plan).step_time_s;
    ASSERT_GE(timed, none.Predict(run.plan).step_time_s * (1 - 1e-12)) << i;
    // Uneven stages of few microbatches are up to 2% off without a host, too.
    const double without = 1 - none.Estimate(run.plan).step_time_s / none.Predict(run.plan).step_time_s;
    ASSERT_NEAR(closed / timed, 1, std::max(0.02, without + 0.002)) << i << ": " << PlanText(run.plan);
    ASSERT_NEAR(some.Trace(run.plan).step_time_s / timed, 1, 1e-9) << i;
  }
  EXPECT_GT(bound, 50);
  EXPECT_GT(free, 50);
}

}  // namespace
}  // namespace autocfg
