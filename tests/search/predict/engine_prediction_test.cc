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
  ask.cluster.engine.update_bytes = 4;
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
  // An allocator that would hold more than there is returns what is not in use.
  ask.cluster.groups[0].device.memory_bytes = more.memory.Arena() + more.memory.device_overhead + (1 << 30);
  const Prediction tight = ask("tp=8,mbs=2").prediction;
  EXPECT_TRUE(tight.feasible);
  EXPECT_EQ(tight.memory.allocator_reserve, 1 << 30);
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
  ask.cluster.engine.update_bytes = 4;
  const MemoryBytes more = ask(kPlan).prediction.memory;
  EXPECT_EQ(more.gradients - less.gradients, ours.optimizer / 3) << "4 bytes where the states take 12";
  EXPECT_NEAR(static_cast<double>(more.gradients), 2.0 * static_cast<double>(ours.parameters), 1e6)
      << "half of the parameters are updated by a rank of two";
  ask.workload.precision = *ParsePrecision("bf16");
  EXPECT_EQ(ask(kPlan).prediction.memory, ours) << "bf16 is as before";
  ask.workload.precision = *ParsePrecision("bf16:grads=bf16");
  EXPECT_EQ(ask(kPlan).prediction.memory, more) << "but not where gradients accumulate in bf16";
}

// DeepSpeed's third stage makes gradients in fp32 of one group of parameters at a time.
TEST(EnginePrediction, MemoryOfGradientsThatAreUpdatedInTurns) {
  Asked ask;
  ask.workload.precision = *ParsePrecision("bf16:grads=bf16");
  const auto gradients = [&](const char* plan, std::int64_t at_once) {
    ask.cluster.engine.updated_at_once = at_once;
    return ask(plan).prediction.memory.gradients;
  };
  const std::int64_t sharded = gradients("dp=8,zero=3", 0), replicated = gradients("dp=8,zero=1", 0);
  ask.cluster.engine.update_bytes = 4;
  EXPECT_EQ(gradients("dp=8,zero=3", 1'000'000), sharded + 4'000'000);
  EXPECT_GT(gradients("dp=8,zero=3", 0), sharded + 4'000'000);
  EXPECT_GT(gradients("dp=8,zero=1", 1'000'000), replicated + 4'000'000) << "only of sharded parameters";
}

// The inputs of the column-parallel products of both blocks, of all ranks of the tensor group.
TEST(EnginePrediction, MemoryOfGatheredInputs) {
  Asked ask;
  const auto activations = [&](const char* plan, double inputs) {
    ask.cluster.engine.gathered_inputs = inputs;
    return ask(plan).prediction.memory.activations;
  };
  EXPECT_EQ(activations("tp=8,sp=1,mbs=2", 2) - activations("tp=8,sp=1,mbs=2", 0),
            kLayers * 2 * kTokens * kHidden * 2);
  EXPECT_EQ(activations("tp=8,mbs=2", 2), activations("tp=8,mbs=2", 0)) << "they are whole anyway";
}

// Transformer Engine's weights and inputs of products in the format of the products, in a layer with GELU:
// along rows and along columns two bytes of a weight; of an input one byte in place of two, and one more of
// the output of attention, which attention reads too.
TEST(EnginePrediction, MemoryOfOperandsInANarrowFormat) {
  constexpr const char* kPlan = "tp=8,mbs=2";
  Asked ask;
  ask.cluster = *PresetCluster("b200-sxm:1x8");
  ask.workload.precision = *ParsePrecision("fp8");
  const MemoryBytes whole = ask(kPlan).prediction.memory;
  ask.cluster.engine.keeps_operands = true;
  const MemoryBytes narrow = ask(kPlan).prediction.memory;
  EXPECT_EQ(whole.activations - narrow.activations,
            kLayers * (2 * kTokens * kHidden + kTokens * 4 * kHidden / 8 - kTokens * kHidden / 8));
  // 12 H^2 of each layer, its biases and, with 2 bytes a weight, as much again.
  EXPECT_NEAR(static_cast<double>(narrow.parameters - whole.parameters),
              2.0 * kLayers * 12 * kHidden * kHidden / 8, 1e-3 * static_cast<double>(whole.parameters));
  ask.workload.precision = *ParsePrecision("nvfp4");
  EXPECT_LT(ask(kPlan).prediction.memory.parameters, narrow.parameters);
  ask.workload.precision = *ParsePrecision("bf16");
  EXPECT_EQ(ask(kPlan).prediction.memory, whole) << "bf16 has no other operands";
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
      const ClusterSpec ours = ask.cluster;
      ask.cluster.engine = *EngineNamed(engine);
      const PlanPrediction named = ask(plan);
      EXPECT_EQ(named.engine, engine);
      // Its stages, if it makes them itself, are part of the plan.
      ask.cluster = ours;
      const PlanPrediction own = ask(PlanText(named.plan).c_str());
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
  const auto blocks = ClusterOpTimes::Create(a100.cluster, *ParsePrecision("fp8_block"));
  EXPECT_EQ(blocks.status(), refused.status()) << "it has the same rate";
}

// What is cast along rows and columns serves the product of an input, that of its gradient and the one of
// both; weights are cast once a step.
TEST(EnginePrediction, KeptOperandsAreCastOnce) {
  Asked ask;
  ask.cluster = *PresetCluster("b200-sxm:1x8");
  ask.workload.precision = *ParsePrecision("mxfp8");
  constexpr double kM = 8192, kN = 4096, kK = 16384;
  OpDesc product{.kind = OpKind::kMatmul, .dtype = DType::kBF16, .dims = {8192, 4096, 16384}};
  const double twice = ask.Seconds(product, "tp=1");
  ask.cluster.engine.keeps_operands = true;
  const double once = ask.Seconds(product, "tp=1");
  const DeviceSpec& device = ask.cluster.groups[0].device;
  const double bytes_per_s = device.memory_bytes_per_s * device.efficiency.memory, element = 1 + 1.0 / 32;
  EXPECT_NEAR(twice - once, ((kM * kK + kK * kN) * (2 + element) - kM * kK * (2 + 2 * element)) / bytes_per_s,
              1e-9);
  product.transpose_a = true;
  EXPECT_NEAR(once - ask.Seconds(product, "tp=1"), kM * kK * (2 + 2 * element) / bytes_per_s, 1e-9);
}

// An engine's factor of bf16 is not that of a narrow format (NeMo's was fitted to runs in fp8).
TEST(EnginePrediction, FactorsAreOfAPrecision) {
  Asked ask;
  ask.cluster = *PresetCluster("h100-sxm:1x8");
  const OpDesc product{.kind = OpKind::kMatmul, .dtype = DType::kBF16, .dims = {16384, 16384, 16384}};
  const auto seconds = [&](const char* precision) {
    ask.workload.precision = *ParsePrecision(precision);
    return ask.Seconds(product, "tp=1");
  };
  const double bf16 = seconds("bf16"), fp8 = seconds("fp8");
  ask.cluster.engine.narrow_matmul = 1.25;
  EXPECT_EQ(seconds("bf16"), bf16);
  EXPECT_LT(seconds("fp8"), fp8);
  const auto times = *ClusterOpTimes::Create(ask.cluster, *ParsePrecision("fp8"));
  EXPECT_EQ(times->OutputLayer().Seconds(product, *ParsePlanText("tp=1")), bf16);
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
