#include "search/predict/predict_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "search/cost/op_times/nominal_times.h"
#include "search/cost/op_times/op_times.h"
#include "search/plan/plan_text.h"
#include "search/predict/prediction_interval.h"
#include "search/schedule/program.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ModelSpec Model(const char* name) {
  ModelSpec model = *ModelPreset(name);
  FillDefaults(model);
  return model;
}

ClusterSpec WithHost(const char* preset, double host_op_s) {
  ClusterSpec cluster = *PresetCluster(preset);
  cluster.groups[0].host_op_s = host_op_s;
  return cluster;
}

// By default the host takes no time to issue an op.
struct Question : Problem {
  Question()
      : Problem{Model("gpt2-124m"), {64, 1024, *ParsePrecision("bf16")}, WithHost("a100-80gb-sxm:1x8", 0)} {}
  absl::StatusOr<PlanPrediction> operator()(const char* plan) const {
    return PredictPlan({*this, *ParsePlanText(plan)});
  }
};

TEST(PredictPlan, FitsAndIsTimedWithItsInterval) {
  const Question ask;
  const auto answer = ask("tp=2,pp=2,dp=2,mbs=2");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Prediction& p = answer->prediction;
  EXPECT_TRUE(p.feasible) << p.reason;
  EXPECT_GT(p.step_time_s, 0);
  EXPECT_DOUBLE_EQ(p.step_time_low_s, p.step_time_s * 0.8);
  EXPECT_DOUBLE_EQ(p.step_time_high_s, p.step_time_s * 1.3);
  EXPECT_NEAR(p.breakdown.Total(), p.step_time_s, 1e-9 * p.step_time_s);
  EXPECT_EQ(p.memory.device_overhead, *ask.cluster.groups[0].device.overhead_bytes);
  EXPECT_EQ(p.capacity_bytes, ask.cluster.groups[0].device.memory_bytes);
  EXPECT_THAT(answer->notes, ElementsAre());
}

TEST(PredictPlan, ByMeasuredOpTimes) {
  const Question ask;
  const ParallelPlan plan = *ParsePlanText("tp=2,pp=2,dp=2,mbs=2");
  const auto by = [&](std::shared_ptr<const OpTimeModel> times) {
    auto predictor = Predictor::Create(ask, 0,
                                       {.times = std::move(times),
                                        .device_overhead_bytes = 12345,
                                        .sigma = [](const ParallelPlan& of, const Breakdown& step) {
                                          EXPECT_EQ(of.tp, 2);
                                          EXPECT_GT(step.compute, 0);
                                          return 0.1;
                                        }});
    EXPECT_TRUE(predictor.ok()) << predictor.status();
    return predictor->Predict(plan);
  };
  const auto answer = by(std::make_shared<const NominalTimes>());
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Prediction& p = answer->prediction;
  EXPECT_NEAR(p.step_time_high_s, p.step_time_s * std::exp(0.1645), 1e-9 * p.step_time_s);
  EXPECT_NEAR(p.step_time_low_s, p.step_time_s / std::exp(0.1645), 1e-9 * p.step_time_s);
  EXPECT_EQ(p.memory.device_overhead, 12345);
  const auto none = by(std::make_shared<const OpTimes>()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(none.message(), HasSubstr("cluster: the measured op times lack ops"));
}

TEST(PredictPlan, SaysIfRanksAreIdle) {
  const Question ask;
  EXPECT_THAT(ask("tp=2,pp=1,dp=2,mbs=2")->notes, ElementsAre("uses 4 of 8 ranks; the others are idle"));
}

TEST(PredictPlan, FeasiblePlansLeaveTheMargin) {
  const Question ask;
  const ParallelPlan plan = *ParsePlanText("tp=2,pp=2,dp=2,mbs=2");
  const auto with = [&](double margin) {
    auto predictor = Predictor::Create(ask, margin);
    EXPECT_TRUE(predictor.ok()) << predictor.status();
    EXPECT_EQ(predictor->costs().memory_margin(), margin);
    return predictor->Predict(plan)->prediction;
  };
  const Prediction none = with(0);
  const double used = static_cast<double>(none.memory.Total()) / static_cast<double>(none.capacity_bytes);
  EXPECT_TRUE(none.feasible);
  EXPECT_TRUE(with(1 - used - 1e-6).feasible);
  const Prediction tight = with(1 - used + 1e-6);
  EXPECT_FALSE(tight.feasible);
  EXPECT_EQ(tight.memory, none.memory);
  EXPECT_EQ(tight.step_time_s, none.step_time_s);
  EXPECT_THAT(tight.reason, AllOf(HasSubstr("less than the memory margin of "), HasSubstr(" a rank has free"),
                                  HasSubstr("the largest region")));
  EXPECT_FALSE(Predictor::Create(ask, 1).ok());
}

// On one GPU, a recomputing GPT-2 layer has 24 ops (7 forward, 6 recomputed, 11 backward), in 12 layers.
// Embedding and head have 2 + 2 and 3 + 3. So 8 microbatches issue at least 8 x 298 ops.
TEST(PredictPlan, HighAllowsForAScriptedHost) {
  Question ask;
  ask.workload.global_batch = 64;
  const auto fast = ask("dp=8,recompute=full");
  ASSERT_TRUE(fast.ok()) << fast.status();
  EXPECT_THAT(fast->notes, ElementsAre()) << "it is known that the host keeps no one waiting";
  ask.cluster.groups[0].host_op_s.reset();
  const auto answer = ask("dp=8,recompute=full");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Prediction& p = answer->prediction;
  EXPECT_EQ(p.step_time_s, fast->prediction.step_time_s) << "the prediction is the same";
  EXPECT_DOUBLE_EQ(p.step_time_low_s, 0.8 * p.step_time_s);
  const double issues_s = 8 * 298 * kScriptedHostOpSeconds;
  const Breakdown& parts = p.breakdown;
  const double other_s = p.step_time_s - parts.compute - parts.recompute;
  EXPECT_GT(p.step_time_high_s, issues_s + other_s);
  EXPECT_NEAR(p.step_time_high_s / (issues_s + other_s), 1, 0.01)
      << "the device is much faster than the host";
  EXPECT_GT(p.step_time_high_s, 2 * p.step_time_s);
  EXPECT_THAT(answer->notes,
              ElementsAre(AllOf(HasSubstr("launch-bound: "), HasSubstr("times as long"),
                                HasSubstr("a larger micro_batch makes"), HasSubstr("host_op_s"))));
  EXPECT_THAT(ask("tp=2,dp=4")->notes, ElementsAre(HasSubstr("a larger micro_batch or a lower tp makes")));

  // If the host's time is given, it determines the prediction.
  ask.cluster.groups[0].host_op_s = kScriptedHostOpSeconds;
  const auto slow = ask("dp=8,recompute=full");
  EXPECT_NEAR(slow->prediction.step_time_s, p.step_time_high_s, 1e-9);
  EXPECT_DOUBLE_EQ(slow->prediction.step_time_high_s, 1.3 * slow->prediction.step_time_s);
  EXPECT_THAT(slow->notes, ElementsAre(AllOf(HasSubstr("launch-bound: the host takes longer"),
                                             HasSubstr("0.00017 s each by host_op_s"))));
}

TEST(PredictPlan, LargeLayersAndCpusHideTheHost) {
  Question ask;
  ask.cluster = *PresetCluster("a100-80gb-sxm:1x8");
  ask.model = Model("megatron-18b");
  ask.workload = {8, 2048, *ParsePrecision("bf16")};
  const auto large = ask("tp=8,mbs=4,recompute=full");
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_DOUBLE_EQ(large->prediction.step_time_high_s, 1.3 * large->prediction.step_time_s);
  EXPECT_THAT(large->notes, ElementsAre());
  Question cpus;
  NodeGroup& group = cpus.cluster.groups[0];
  group.host_op_s.reset();
  group.device.kind = DeviceKind::kCpu;
  const auto own_host = cpus("dp=8");
  ASSERT_TRUE(own_host.ok()) << own_host.status();
  EXPECT_DOUBLE_EQ(own_host->prediction.step_time_high_s, 1.3 * own_host->prediction.step_time_s);
}

TEST(PredictPlan, MoreHardwareOrLessWorkIsNotSlower) {
  Question ask;
  const double whole = ask("dp=8,mbs=2")->prediction.step_time_s;
  EXPECT_GT(ask("dp=4,mbs=2")->prediction.step_time_s, whole) << "a plan may leave ranks idle";
  EXPECT_GT(ask("dp=8,mbs=2,recompute=full")->prediction.step_time_s, whole);
  ask.cluster = WithHost("h100-sxm:1x8", 0);
  EXPECT_LT(ask("dp=8,mbs=2")->prediction.step_time_s, whole);
}

TEST(PredictPlan, SplitsAreResolved) {
  const Question ask;
  const auto answer = ask("pp=4,dp=2,split=auto");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_NE(answer->plan.split, SplitMode::kAuto);
  EXPECT_THAT(answer->notes, ElementsAre(HasSubstr("split=auto is ")));
  const auto even = ask("pp=4,dp=2");
  EXPECT_LE(answer->prediction.step_time_s, even->prediction.step_time_s * (1 + 1e-9));
}

// The balance of stages does not see that messages are dearer between stages that are not alike.
TEST(PredictPlan, AutomaticSplitIsNoSlowerThanAnEvenOne) {
  Question ask;
  int uneven = 0, even_won = 0;
  for (const char* cluster : {"h100-sxm:1x8", "a100-40gb-sxm:2x4", "h200-sxm:4x2"}) {
    ask.cluster = *PresetCluster(cluster);
    for (const char* plan : {"pp=2,dp=4", "pp=4,dp=2", "pp=4,dp=2,p2p_overlap=1", "pp=2,vpp=2,dp=4",
                             "pp=2,vpp=3,dp=4,p2p_overlap=1", "pp=4,dp=2,schedule=gpipe",
                             "pp=4,dp=2,schedule=zb-h1", "pp=2,vpp=6,dp=4", "pp=6", "pp=4,vpp=3,dp=2"}) {
      const auto even = ask(plan), automatic = ask((std::string(plan) + ",split=auto").c_str());
      ASSERT_TRUE(even.ok() && automatic.ok()) << plan << even.status() << automatic.status();
      EXPECT_LE(automatic->prediction.step_time_s, even->prediction.step_time_s) << plan << " on " << cluster;
      (automatic->plan.split == SplitMode::kEven ? even_won : uneven) += 1;
    }
  }
  EXPECT_GT(uneven, 0);
  EXPECT_GT(even_won, 0);
}

TEST(PredictPlan, RejectsByName) {
  const Question ask;
  const auto refused = [](const absl::Status& status, absl::StatusCode code, const std::string& says) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  };
  refused(ask("tp=7").status(), absl::StatusCode::kInvalidArgument, "12 heads are not divisible by tp=7");
  refused(ask("dp=16").status(), absl::StatusCode::kInvalidArgument, "8 ranks");
  Question wrong;
  wrong.model.kv_heads = 5;
  refused(wrong("tp=1").status(), absl::StatusCode::kInvalidArgument, "kv_heads");
  wrong = Question();
  wrong.workload.seq_len = 4096;
  refused(wrong("tp=1").status(), absl::StatusCode::kInvalidArgument, "learned positions");
  wrong = Question();
  wrong.cluster.groups[0].device.flops_per_s_bf16 = 0;
  refused(wrong("tp=1").status(), absl::StatusCode::kInvalidArgument, "bf16");
}

TEST(PredictPlan, HugeStepsUseTheClosedFormWithANote) {
  Question ask;
  ask.workload.global_batch = 1 << 20;
  const auto answer = ask("pp=4,dp=2,mbs=1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->notes, ElementsAre(HasSubstr("closed form")));
  // A step with n times the batch takes n times as long, except for work done once.
  ask.workload.global_batch = 1 << 12;
  const auto small = ask("pp=4,dp=2,mbs=1");
  EXPECT_THAT(small->notes, ElementsAre());
  EXPECT_NEAR(answer->prediction.step_time_s / small->prediction.step_time_s, 256, 256 * 0.05);
}

TEST(Predictor, TracesEveryRank) {
  const Question ask;
  auto predictor = Predictor::Create(ask);
  ASSERT_TRUE(predictor.ok()) << predictor.status();
  const auto trace = predictor->TraceOf(*ParsePlanText("tp=2,pp=2,dp=2,mbs=8"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::size_t actions = 0;
  for (const auto& rank : trace->program.ranks) actions += rank.size();
  EXPECT_EQ(trace->program.ranks.size(), 8u);
  EXPECT_EQ(trace->step.rows.size(), actions) << "every action has its row";
  auto huge = ask.workload;
  huge.global_batch = 1 << 20;
  auto large = Predictor::Create({ask.model, huge, ask.cluster});
  const auto status = large->TraceOf(*ParsePlanText("pp=4,dp=2,mbs=1")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// Published figures of Korthikanti et al. 2022, table 5: the 22B model takes 1.10 s per step of batch 4 and
// sequence 2048 on 8 GPUs, under selective recomputation and sequence parallelism. They report 41.5% MFU and
// 43.7% hardware utilisation of 312 TFLOP/s.
TEST(Throughput, ModelFlopsUtilisationAsPublished) {
  ModelSpec model;
  model.layers = 48;
  model.hidden = 6144;
  model.heads = 64;
  model.vocab = 51200;
  model.max_seq_len = 2048;
  FillDefaults(model);
  const Throughput rates =
      ThroughputOf({model, {4, 2048, *ParsePrecision("bf16")}, *PresetCluster("a100-80gb-sxm:1x8")},
                   *ParsePlanText("tp=8"), 1.10);
  ASSERT_TRUE(rates.mfu);
  EXPECT_NEAR(*rates.mfu, 0.415, 0.005);
  EXPECT_DOUBLE_EQ(rates.tokens_per_s, 4 * 2048 / 1.10);
  EXPECT_DOUBLE_EQ(rates.tokens_per_s_per_gpu, 4 * 2048 / 1.10 / 8);
}

TEST(Throughput, TokensPerSecondOfNoTimeAreZero) {
  const Workload workload{.global_batch = 4, .seq_len = 2048};
  EXPECT_DOUBLE_EQ(TokensPerSecond(workload, 2), 4096);
  EXPECT_EQ(TokensPerSecond(workload, 0), 0);
  EXPECT_EQ(TokensPerSecond(workload, -1), 0);
}

}  // namespace
}  // namespace autocfg
