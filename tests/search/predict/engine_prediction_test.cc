// What an engine's profile changes of a prediction, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "search/cost/op_times/cluster_op_times.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/hardware_flops.h"
#include "search/plan/plan_text.h"
#include "search/predict/predict_plan.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using ::testing::HasSubstr;

constexpr double kLayers = 40, kMicrobatches = 4, kTokens = 2 * 2048, kHidden = 6144;

struct Asked {
  ClusterSpec cluster = *PresetCluster("a100-80gb-sxm:1x8");
  Workload workload{8, 2048, *ParsePrecision("bf16")};

  PlanPrediction operator()(const char* plan) const {
    ModelSpec model = *ModelPreset("megatron-18b");
    FillDefaults(model, 2048);
    const auto predicted = PredictPlan({{model, workload, cluster}, *ParsePlanText(plan)});
    EXPECT_TRUE(predicted.ok()) << predicted.status();
    return *predicted;
  }
  double Seconds(const OpDesc& op, const char* plan) const {
    return (*ClusterOpTimes::Create(cluster, workload.precision))->Seconds(op, *ParsePlanText(plan));
  }
};

TEST(EnginePrediction, OursIsTheDefault) {
  Asked ask;
  const double before = ask("tp=8,mbs=2").prediction.step_time_s;
  ask.cluster.engine = *EngineNamed("autocfg");
  const PlanPrediction own = ask("tp=8,mbs=2");
  EXPECT_EQ(own.prediction.step_time_s, before);
  EXPECT_EQ(own.engine, "autocfg");
}

// An engine's share of a device's figure was found on other devices.
TEST(EnginePrediction, NoProductIsFasterThanThePeak) {
  constexpr std::int64_t kSize = 16384;
  for (const std::string& engine : EngineNames()) {
    for (const std::string& device : DevicePresetNames()) {
      SCOPED_TRACE(::testing::Message() << engine << " on " << device);
      ClusterSpec cluster = *PresetCluster(device + ":1x8");
      cluster.engine = *EngineNamed(engine);
      const Precision precision = *ParsePrecision("fp16");
      const std::optional<double> peak = PeakFlops(cluster.groups.front().device, precision);
      if (!peak) continue;  // a CPU
      const auto times = ClusterOpTimes::Create(cluster, precision);
      ASSERT_TRUE(times.ok()) << times.status();
      const OpDesc product{.kind = OpKind::kMatmul, .dtype = DType::kF16, .dims = {kSize, kSize, kSize}};
      EXPECT_GE((*times)->Seconds(product, ParallelPlan{}), 2.0 * kSize * kSize * kSize / *peak);
    }
  }
}

TEST(EnginePrediction, WholeLayersRepeatTheLastProductAndItsSum) {
  constexpr const char* kPlan = "tp=8,mbs=2,recompute=full";
  Asked ask;
  const Prediction ours = ask(kPlan).prediction;
  ask.cluster.engine.recomputes_whole_layers = true;
  const Prediction whole = ask(kPlan).prediction;
  // The last product [T, 4H / 8] x [4H / 8, H], the sum over 8 ranks, and the addition of the residual. The
  // recomputation has its messages.
  const double product =
      ask.Seconds({.kind = OpKind::kMatmul, .dtype = DType::kBF16, .dims = {4096, 6144, 3072}}, kPlan);
  const double residual =
      ask.Seconds({.kind = OpKind::kBiasResidual, .dtype = DType::kBF16, .dims = {4096, 6144}}, kPlan);
  OpDesc sum{.kind = OpKind::kAllReduceSum, .dtype = DType::kBF16, .dims = {4096 * 6144}};
  sum.group = CommGroup::kTensor;
  sum.group_size = 8;
  EXPECT_NEAR(whole.breakdown.recompute - ours.breakdown.recompute,
              kMicrobatches * kLayers * (product + residual + ask.Seconds(sum, kPlan)), 1e-9);
  EXPECT_NEAR(whole.breakdown.tp_comm, ours.breakdown.tp_comm, 1e-9);
}

// Megatron-LM's module mlp is the block with its norm: beyond our part, a norm, and what a whole layer
// repeats.
TEST(EnginePrediction, WholeBlocksRepeatTheNormTheLastProductAndItsSum) {
  Asked ask;
  const auto recomputed_s = [&](const char* recompute) {
    return ask((std::string("tp=8,mbs=2,recompute=") + recompute).c_str()).prediction.breakdown.recompute;
  };
  const double part = recomputed_s("selective:mlp"), with_norms = recomputed_s("selective:mlp+norm"),
               full = recomputed_s("full");
  ask.cluster.engine.recomputes_whole_layers = true;
  EXPECT_NEAR(recomputed_s("selective:mlp") - part, (with_norms - part) / 2 + recomputed_s("full") - full,
              1e-9);
}

TEST(EnginePrediction, GathersOfABackwardMayBeHidden) {
  constexpr const char* kPlan = "tp=8,mbs=2,sp=1";
  Asked ask;
  ask.cluster.groups[0].device.efficiency.overlap_contention = 0;
  const double all = ask(kPlan).prediction.breakdown.tp_comm;
  ask.cluster.engine.hides_backward_gathers = true;
  const double some = ask(kPlan).prediction.breakdown.tp_comm;
  OpDesc gather{.kind = OpKind::kAllGather, .dtype = DType::kBF16, .dims = {4096 * 6144}};
  gather.group = CommGroup::kTensor;
  gather.group_size = 8;
  EXPECT_NEAR(all - some, kMicrobatches * kLayers * 4 * ask.Seconds(gather, kPlan), 1e-9)
      << "four in a layer";
}

TEST(EnginePrediction, FurtherPassesTakeTheMemorysTime) {
  Asked ask;
  const double before = ask("tp=8,mbs=2").prediction.breakdown.compute;
  ask.cluster.engine.forward_passes = 3;
  ask.cluster.engine.backward_passes = 5;
  const double after = ask("tp=8,mbs=2").prediction.breakdown.compute;
  const double bytes_per_s = 2.039e12 * 0.75;
  EXPECT_NEAR(after - before, kMicrobatches * kLayers * 8 * kTokens * kHidden * 2 / bytes_per_s, 1e-9);
}

TEST(EnginePrediction, SharesHostAndStep) {
  Asked ask;
  const PlanPrediction ours = ask("tp=8,mbs=2");
  ask.cluster.engine.step_s = 0.25;
  EXPECT_NEAR(ask("tp=8,mbs=2").prediction.step_time_s - ours.prediction.step_time_s, 0.25, 1e-9);
  ask.cluster.engine = {.host_op_s = 1e-2};
  EXPECT_GT(ask("tp=8,mbs=2").prediction.step_time_s, kMicrobatches * kLayers * 20 * 1e-2);
  ask.cluster.groups[0].host_op_s = 0;
  EXPECT_EQ(ask("tp=8,mbs=2").prediction.step_time_s, ours.prediction.step_time_s)
      << "the cluster's own counts";
  ask.cluster.engine = {.intra_node = 0.5};
  EXPECT_GT(ask("tp=8,mbs=2").prediction.breakdown.tp_comm, 1.8 * ours.prediction.breakdown.tp_comm);
}

TEST(EnginePrediction, MemoryBesideOurs) {
  Asked ask;
  const MemoryBytes ours = ask("tp=8,mbs=2").prediction.memory;
  ask.cluster.engine.bf16_gradient_bytes = 6;
  ask.cluster.engine.fp16_update_bytes = 4;
  ask.cluster.engine.activation_share = 0.25;
  ask.cluster.engine.overhead_bytes = 1000;
  const MemoryBytes more = ask("tp=8,mbs=2").prediction.memory;
  EXPECT_EQ(more.gradients - ours.gradients, ours.parameters) << "two bytes more, as large as a parameter";
  EXPECT_EQ(more.activations - ours.activations, ours.activations / 4);
  EXPECT_NEAR(static_cast<double>(more.workspace - ours.workspace),
              0.25 * static_cast<double>(ours.workspace), 1);
  EXPECT_EQ(more.device_overhead - ours.device_overhead, 1000);
  EXPECT_EQ(more.parameters, ours.parameters);
  EXPECT_EQ(more.optimizer, ours.optimizer);
}

// What the allocator holds beside counts against the capacity, and the error of both makes the interval.
TEST(EnginePrediction, ReserveAndIntervalOfMemory) {
  Asked ask;
  const Prediction ours = ask("tp=8,mbs=2").prediction;
  EXPECT_EQ(ours.memory.allocator_reserve, 0);
  EXPECT_EQ(ours.memory_low_bytes, ours.memory.Total());
  EXPECT_EQ(ours.memory_high_bytes, ours.memory.Total());
  ask.cluster.engine.allocator_share = 0.25;
  ask.cluster.engine.memory_error = 0.1;
  ask.cluster.engine.library_bytes = 4096;
  const Prediction more = ask("tp=8,mbs=2").prediction;
  EXPECT_EQ(more.memory.Arena(), ours.memory.Arena() + 4096);
  EXPECT_EQ(more.memory.allocator_reserve, more.memory.Arena() / 4);
  EXPECT_EQ(more.memory.Total(), more.memory.Reserved() + more.memory.device_overhead);
  EXPECT_EQ(more.memory_high_bytes - more.memory.Total(), more.memory.Reserved() / 10);
  EXPECT_EQ(more.memory.Total() - more.memory_low_bytes, more.memory.Reserved() / 10);
  EXPECT_EQ(DefaultMemoryMargin(ask.cluster), 0.1);
  EXPECT_EQ(DefaultMemoryMargin(Asked().cluster), 0.05);
}

// Gradients that accumulate in fp16 and are copied to fp32 by the ranks that update them.
TEST(EnginePrediction, MemoryOfGradientsInFp16) {
  constexpr const char* kPlan = "tp=4,dp=2,mbs=2,zero=1";
  Asked ask;
  ask.workload.precision = *ParsePrecision("fp16");
  const MemoryBytes ours = ask(kPlan).prediction.memory;
  ask.cluster.engine.fp16_gradient_bytes = 2;
  const MemoryBytes less = ask(kPlan).prediction.memory;
  EXPECT_EQ(less.gradients, ours.parameters);
  ask.cluster.engine.fp16_update_bytes = 4;
  const MemoryBytes more = ask(kPlan).prediction.memory;
  EXPECT_EQ(more.gradients - less.gradients, ours.optimizer / 3) << "4 bytes where the states take 12";
  EXPECT_NEAR(static_cast<double>(more.gradients), 2.0 * static_cast<double>(ours.parameters), 1e6)
      << "half of the parameters are updated by a rank of two";
  ask.workload.precision = *ParsePrecision("bf16");
  EXPECT_EQ(ask(kPlan).prediction.memory, ours) << "bf16 is as before";
}

// The logits are in the memory of the rank that has the output layer, which may become the largest one.
TEST(EnginePrediction, MemoryOfLogits) {
  Asked ask;
  const auto logits = [&](const char* plan) {
    ask.cluster.engine.logit_bytes = 0;
    const MemoryBytes without = ask(plan).prediction.memory;
    ask.cluster.engine.logit_bytes = 8;
    return ask(plan).prediction.memory.Arena() - without.Arena();
  };
  const std::int64_t vocab = 51200;
  EXPECT_EQ(logits("tp=8,mbs=2"), 8 * 2 * 2048 * vocab / 8);
  // The first of four ranks keeps four microbatches, the last one keeps one, and its logits are less than
  // that.
  EXPECT_EQ(logits("tp=2,pp=4,mbs=1"), 0);
}

// The measured steps are those of a framework already.
TEST(EnginePrediction, TakesTheTimesOfACalibratedClusterAsTheyAre) {
  for (const char* engine : {"megatron", "nemo", "deepspeed", "torchtitan", "nanotron"}) {
    for (const char* plan :
         {"tp=4,dp=2,mbs=2,sp=1,recompute=full", "dp=8,mbs=1,zero=1", "tp=2,pp=2,dp=2,mbs=1"}) {
      Asked ask;
      ask.cluster.calibration.emplace();
      const PlanPrediction own = ask(plan);
      ask.cluster.engine = *EngineNamed(engine);
      const PlanPrediction named = ask(plan);
      EXPECT_EQ(named.engine, engine);
      EXPECT_EQ(named.plan, own.plan);
      EXPECT_EQ(named.prediction.step_time_s, own.prediction.step_time_s) << engine << " " << plan;
    }
  }
}

TEST(EnginePrediction, ItsOverlapIsPartOfItsPlans) {
  Asked ask;
  ask.cluster.engine = *EngineNamed("torchtitan");
  const ParallelPlan sharded = ask("dp=8,mbs=1,zero=3").plan;
  EXPECT_TRUE(sharded.grad_overlap);
  EXPECT_TRUE(sharded.param_overlap);
  const ParallelPlan whole = ask("tp=8,mbs=1").plan;
  EXPECT_FALSE(whole.grad_overlap) << "nothing to act on";
  EXPECT_FALSE(whole.param_overlap);
}

// What collectives take from the computes that hide them is part of a step, on GPUs alone.
TEST(EnginePrediction, HiddenCollectivesTakeFromComputes) {
  for (const char* plan : {"dp=8,mbs=1,zero=3,grad_overlap=1,param_overlap=1", "dp=8,mbs=1,grad_overlap=1",
                           "dp=8,mbs=1,zero=1,grad_overlap=1,param_overlap=1", "tp=8,mbs=2,tp_overlap=4"}) {
    Asked ask;
    std::optional<double>& contention = ask.cluster.groups[0].device.efficiency.overlap_contention;
    contention = 0;
    const double none = ask(plan).prediction.step_time_s;
    contention = 0.5;
    const double half = ask(plan).prediction.step_time_s;
    contention = 1;
    const double all = ask(plan).prediction.step_time_s;
    EXPECT_GT(half, none * 1.001) << plan;
    EXPECT_GT(all, half) << plan;
    ask.cluster.groups[0].device.kind = DeviceKind::kCpu;
    const double cpu = ask(plan).prediction.step_time_s;
    contention = 0;
    EXPECT_EQ(ask(plan).prediction.step_time_s, cpu) << plan;
  }
  Asked ask;
  ask.cluster.groups[0].device.efficiency.overlap_contention = 0;
  const double none = ask("tp=8,mbs=2").prediction.step_time_s;
  ask.cluster.groups[0].device.efficiency.overlap_contention = 0.5;
  EXPECT_EQ(ask("tp=8,mbs=2").prediction.step_time_s, none) << "nothing is hidden";
  // An engine that hides the gathers of a backward: half of the four of each layer comes back.
  ask.cluster.engine.hides_backward_gathers = true;
  constexpr const char* kPlan = "tp=8,mbs=2,sp=1";
  const double contended = ask(kPlan).prediction.step_time_s;
  ask.cluster.groups[0].device.efficiency.overlap_contention = 0;
  OpDesc gather{.kind = OpKind::kAllGather, .dtype = DType::kBF16, .dims = {4096 * 6144}};
  gather.group = CommGroup::kTensor;
  gather.group_size = 8;
  EXPECT_NEAR(contended - ask(kPlan).prediction.step_time_s,
              0.5 * kMicrobatches * kLayers * 4 * ask.Seconds(gather, kPlan), 1e-9);
}

TEST(EnginePrediction, Fp8ProductsTakeTheirRateAndCasts) {
  Asked ask;
  ask.cluster = *PresetCluster("h100-sxm:1x8");
  ask.cluster.groups[0].device.efficiency.matmul_k_half = 0;
  const OpDesc product{.kind = OpKind::kMatmul, .dtype = DType::kBF16, .dims = {16384, 16384, 16384}};
  const double bf16 = ask.Seconds(product, "tp=1");
  const double step = ask("tp=8,mbs=2").prediction.step_time_s;
  ask.workload.precision = *ParsePrecision("fp8");
  const DeviceSpec& device = ask.cluster.groups[0].device;
  const double overhead = *device.efficiency.op_overhead_s;
  const double casts = 2.0 * 16384 * 16384 * 3 / (device.memory_bytes_per_s * device.efficiency.memory);
  EXPECT_NEAR(ask.Seconds(product, "tp=1"), (bf16 - overhead) * 989.4 / 1979 + overhead + casts, 1e-3 * bf16);
  EXPECT_LT(ask("tp=8,mbs=2").prediction.step_time_s, step);

  // The output layer has the same products in bf16.
  const auto times = *ClusterOpTimes::Create(ask.cluster, ask.workload.precision);
  EXPECT_EQ(times->OutputLayer().Seconds(product, *ParsePlanText("tp=1")), bf16);
  ask.workload.precision = *ParsePrecision("bf16");
  const auto in_bf16 = *ClusterOpTimes::Create(ask.cluster, ask.workload.precision);
  EXPECT_EQ(&in_bf16->OutputLayer(), in_bf16.get());
  ask.workload.precision = *ParsePrecision("fp8");

  Asked a100;
  a100.workload.precision = ask.workload.precision;
  const auto refused = ClusterOpTimes::Create(a100.cluster, a100.workload.precision);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("flops_per_s.fp8"));
}

// A model whose output layer is nearly all of its step gains nothing from fp8 but in its one layer.
TEST(EnginePrediction, Fp8LeavesTheOutputLayerInTheComputeType) {
  ModelSpec model = *ModelPreset("megatron-18b");
  FillDefaults(model, 2048);
  model.layers = 1;
  model.vocab = 1'024'000;
  const ClusterSpec cluster = *PresetCluster("h100-sxm:1x8");
  const auto step = [&](const char* precision) {
    const auto predicted =
        PredictPlan({{model, {8, 2048, *ParsePrecision(precision)}, cluster}, *ParsePlanText("tp=8,mbs=2")});
    EXPECT_TRUE(predicted.ok()) << predicted.status();
    return predicted->prediction.step_time_s;
  };
  const double hidden = 6144, layer = 12 * hidden * hidden, output = 1'024'000 * hidden;
  EXPECT_GT(step("fp8"), step("bf16") * output / (output + layer));
  EXPECT_LT(step("fp8"), step("bf16"));
}

}  // namespace
}  // namespace autocfg
