// What the host takes to issue ops: a device whose times are round, against seconds counted by hand.
//
// SmallGpt has biases, no gate, learned positions and one table for both ends. On one GPU a layer issues 7
// ops forward, 6 of them when it recomputes, and 11 backward; the embedding 2 and 2, the head 3 and 3. Over a
// tensor group a layer has 11, 8 and 13, for two all-reduces and two additions of the residual forward, one
// of each when it recomputes, and two all-reduces backward; the embedding 3 and 2, the head 7 and 5.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "search/cost/action_ops.h"
#include "search/cost/cost_model.h"
#include "search/cost/op_times/measured_on_links.h"
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
  return CostModel(model, workload, LocalRanks(1024), std::make_shared<const RoundTimes>(host_op_s));
}

TEST(HostTime, TheLongerOfDeviceAndHostInEveryStage) {
  const ModelSpec model = SmallGpt(8);
  const ParallelPlan plan{{.pp = 2}, {.recompute = Recompute::kFull}};
  const auto stage = [&](double host_op_s, std::size_t index) {
    CostModel costs = Costs(model, Fp32(4, 16), host_op_s);
    return costs.CostsOf(plan).stages[index];
  };
  // Four layers: 40 s forward, 40 + 80 s backward.
  EXPECT_EQ(stage(0, 0).forward_s, 40);
  EXPECT_EQ(stage(0, 0).backward_s, 120);
  EXPECT_EQ(stage(1, 0).forward_s, 40) << "30 issues: 2 and 4 x 7";
  EXPECT_EQ(stage(2, 0).forward_s, 60);
  EXPECT_EQ(stage(2, 1).forward_s, 62) << "31 issues: 4 x 7 and 3";
  EXPECT_EQ(stage(1, 0).backward_s, 120) << "70 issues: 4 x 17 and 2";
  EXPECT_EQ(stage(2, 0).backward_s, 140);
  EXPECT_EQ(stage(2, 1).backward_s, 142) << "71 issues: 3 and 4 x 17";
  EXPECT_EQ(stage(2, 1).recompute_s, 40) << "what the device recomputes is as long as it was";
}

TEST(HostTime, MessagesOverTheTensorGroupAreIssuedToo) {
  const ModelSpec model = SmallGpt(8);
  const ParallelPlan plan{{.tp = 2, .pp = 2}};
  const auto stage = [&](double host_op_s, std::size_t index) {
    CostModel costs = Costs(model, Fp32(4, 16), host_op_s);
    return costs.CostsOf(plan).stages[index];
  };
  EXPECT_EQ(stage(1, 0).forward_s, 49) << "40 s and 9 messages, over 47 issues: 3 and 4 x 11";
  EXPECT_EQ(stage(2, 0).forward_s, 94);
  EXPECT_EQ(stage(2, 0).tp_forward_s, 9) << "the messages are no longer; the device waits";
  EXPECT_EQ(stage(2, 1).forward_s, 102) << "51 issues: 4 x 11 and 7";
  EXPECT_EQ(stage(2, 0).backward_s, 108) << "54 issues: 4 x 13 and 2";
  EXPECT_EQ(stage(2, 1).backward_s, 114) << "57 issues: 5 and 4 x 13";
}

// What a calibration measured of the host reaches the predictions, also on several machines.
TEST(HostTime, MeasuredByACalibration) {
  const ModelSpec model = SmallGpt(2);
  const OpDesc product{.dims = {64, 64, 64}}, fill{.kind = OpKind::kFill, .dims = {64}};
  const OpTimes none({{product, 1e-9}, {fill, 1e-9}});
  const OpTimes some({{product, 1e-9, 0.75}, {fill, 1e-9, 0.25}});
  CostModel free(model, Fp32(3, 16), LocalRanks(1), none), bound(model, Fp32(3, 16), LocalRanks(1), some);
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
  for (const Case& c :
       {Case{0, Recompute::kNone, 3.0 * (20 + 40), 0}, Case{1, Recompute::kNone, 3.0 * (20 + 40), 0},
        Case{1.25, Recompute::kNone, 3.0 * (23.75 + 40), 0}, Case{2, Recompute::kNone, 3.0 * (38 + 54), 0},
        Case{1, Recompute::kFull, 3.0 * (20 + 40), 3.0 * 20},
        Case{2, Recompute::kFull, 3.0 * (38 + 78 - 20), 3.0 * 20}}) {
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
    EXPECT_DOUBLE_EQ(other.Estimate(plan).step_time_s, 7 * 3 * (c.recompute == Recompute::kFull ? 58 : 46));
  }
}

// Over random plans of random models: each forward and backward is as many issues as the program has ops;
// never faster for it; the closed form as close to the timer as without.
TEST(HostTime, CountsTheOpsOfTheProgram) {
  RandomRuns random(97);
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
        return host_op_s *
               static_cast<double>(ActionOps(run.model, run.workload, run.plan, rank, action).size());
      };
      ASSERT_EQ(stages[s].forward_s, std::max(device[s].forward_s, issues(ActionKind::kForward))) << i;
      const bool splits = SplitsBackward(run.plan);
      const double backward = issues(splits ? ActionKind::kInputGradient : ActionKind::kBackward);
      ASSERT_EQ(stages[s].backward_s, std::max(device[s].backward_s, backward)) << i;
      const double weights = splits ? issues(ActionKind::kWeightGradient) : 0;
      ASSERT_EQ(stages[s].weight_s, std::max(device[s].weight_s, weights)) << i;
      ++(stages[s].forward_s > device[s].forward_s ? bound : free);
    }
    const double closed = some.Estimate(run.plan).step_time_s;
    const double timed = some.Predict(run.plan).step_time_s;
    ASSERT_GE(timed, none.Predict(run.plan).step_time_s * (1 - 1e-12)) << i;
    ASSERT_NEAR(closed / timed, 1, 0.02) << i;
    ASSERT_NEAR(some.Trace(run.plan).step_time_s / timed, 1, 1e-9) << i;
  }
  EXPECT_GT(bound, 50);
  EXPECT_GT(free, 50);
}

}  // namespace
}  // namespace autocfg
