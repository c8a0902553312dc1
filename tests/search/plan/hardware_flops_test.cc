#include "search/plan/hardware_flops.h"

#include <gtest/gtest.h>

#include <utility>

#include "search/blocks/layer.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

ModelSpec Gpt() {
  ModelSpec model{.layers = 24, .hidden = 1024, .heads = 16, .vocab = 51200};
  FillDefaults(model, 2048);
  return model;
}

TEST(HardwareFlops, EqualsModelFlopsWithoutRecomputation) {
  EXPECT_EQ(HardwareFlops(Gpt(), {}, 2048, 2048), ModelFlops(Gpt(), 2048, 2048));
}

TEST(PublishedHardwareFlops, MatchesThePublishedFormula) {
  const double batch = 8, seq = 2048, layers = 24, hidden = 1024, vocab = 51200;
  const double published =
      96 * batch * seq * layers * hidden * hidden * (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden));
  EXPECT_NEAR(PublishedHardwareFlops(Gpt(), batch * seq, seq) / published, 1, 1e-12);
}

// Compares with the ops that the engine issues again: matrix products, and attention's two products over full
// scores.
TEST(HardwareFlops, FullMatchesTheEnginesOps) {
  for (const auto& [activation, placement] : {std::pair(Activation::kGelu, NormPlacement::kPre),
                                              std::pair(Activation::kSwiGlu, NormPlacement::kPre),
                                              std::pair(Activation::kSwiGlu, NormPlacement::kOutput),
                                              std::pair(Activation::kGelu, NormPlacement::kSandwich)}) {
    ModelSpec model{.layers = 24,
                    .hidden = 1024,
                    .heads = 16,
                    .kv_heads = 4,
                    .ffn_hidden = 3072,
                    .vocab = 51200,
                    .activation = activation,
                    .norm_placement = placement};
    FillDefaults(model, 2048);
    const Workload workload{.global_batch = 1, .seq_len = 2048, .precision = *ParsePrecision("bf16")};
    const ParallelPlan plan{{}, {.recompute = Recompute::kFull}};
    double again = 0;
    for (const OpDesc& op : LayerRecomputeOps({model, workload, plan})) {
      const auto dim = [&op](std::size_t i) { return static_cast<double>(op.dims[i]); };
      if (op.kind == OpKind::kMatmul) again += 2 * dim(0) * dim(1) * dim(2);
      if (op.kind == OpKind::kAttentionForward) again += 4 * dim(0) * dim(1) * dim(1) * dim(2) * dim(3);
    }
    EXPECT_NEAR((HardwareFlops(model, plan, 2048, 2048) - ModelFlops(model, 2048, 2048)) / (24 * again), 1,
                1e-9)
        << Name(activation) << " " << Name(placement);
  }
}

TEST(HardwareFlops, CountsOnlyRecomputedLayers) {
  ParallelPlan plan{{.pp = 4}, {.recompute = Recompute::kFull}};
  const double once = ModelFlops(Gpt(), 2048, 2048);
  const double all = HardwareFlops(Gpt(), plan, 2048, 2048) - once;
  plan.recompute_layers = 3;  // of the 6 of each stage
  EXPECT_NEAR((HardwareFlops(Gpt(), plan, 2048, 2048) - once) / all, 0.5, 1e-9);
}

// Of twelve stages, each with a layer with a window and one that attends to all, the first layers recompute.
TEST(HardwareFlops, CountsTheKindsOfRecomputedLayers) {
  ModelSpec model = Gpt();
  const double seq = 2048, tokens = 2048, width = 1024;
  const auto recomputed = [&](std::int64_t layers) {
    const ParallelPlan plan{{.pp = 12}, {.recompute = Recompute::kFull}, {.recompute_layers = layers}};
    return HardwareFlops(model, plan, tokens, seq) - ModelFlops(model, tokens, seq);
  };
  const double full = recomputed(1) / 12;
  for (int i = 0; i < 12; ++i) {
    model.layer_kinds.push_back({.layers = 1, .window = 256});
    model.layer_kinds.push_back({.layers = 1});
  }
  const double keys = 2 * AttendedPairs(seq, 256) / (seq + 1);
  const double windowed = full - 4 * tokens * width * (seq - keys);
  EXPECT_NEAR(recomputed(1), 12 * windowed, 1e-9 * full);
  EXPECT_NEAR(recomputed(0), 12 * (windowed + full), 1e-9 * full);
  const ParallelPlan scores{{}, {.recompute = Recompute::kSelective, .attention = Attention::kUnfused}};
  EXPECT_NEAR(HardwareFlops(model, scores, tokens, seq) - ModelFlops(model, tokens, seq),
              4 * tokens * width * 12 * (seq + keys), 1e-9 * full);
}

TEST(HardwareFlops, StageByStage) {
  ParallelPlan plan{
      {.pp = 2}, {.recompute = Recompute::kFull}, {.split = SplitMode::kExplicit, .split_layers = {20, 4}}};
  const double once = ModelFlops(Gpt(), 2048, 2048);
  const double all = HardwareFlops(Gpt(), plan, 2048, 2048) - once;
  plan.recompute_layers = 8;  // in the first stage; the second one has only 4
  EXPECT_NEAR((HardwareFlops(Gpt(), plan, 2048, 2048) - once) / all, 12.0 / 24, 1e-9);
}

// Both products over the scores are repeated: 4 s h of the 12 s h FLOPs that attention takes per layer and
// token.
TEST(HardwareFlops, SelectiveRecomputesAttention) {
  const double tokens = 2048, seq = 2048, hidden = 1024, layers = 24;
  ParallelPlan plan{{}, {.recompute = Recompute::kSelective}};
  EXPECT_EQ(HardwareFlops(Gpt(), plan, tokens, seq), ModelFlops(Gpt(), tokens, seq))
      << "fused: nothing to act on";
  plan.attention = Attention::kUnfused;
  const double attention = ModelFlops(Gpt(), tokens, seq) - ModelFlops(Gpt(), tokens, 0);
  EXPECT_NEAR(attention, 12 * tokens * seq * hidden * layers, 1);
  EXPECT_NEAR((HardwareFlops(Gpt(), plan, tokens, seq) - ModelFlops(Gpt(), tokens, seq)) / attention, 1.0 / 3,
              1e-9);
}

// The parts of layers that are computed again have the FLOPs of their listed products and attention.
TEST(HardwareFlops, PartsMatchTheEnginesOps) {
  for (const Activation activation : {Activation::kGelu, Activation::kSwiGlu}) {
    ModelSpec model = Gpt();
    model.activation = activation;
    const Workload workload{.global_batch = 1, .seq_len = 2048, .precision = *ParsePrecision("bf16")};
    for (const LayerParts parts :
         {LayerParts{LayerPart::kMlp}, LayerParts{LayerPart::kActivation}, LayerParts{LayerPart::kNorm},
          LayerParts{LayerPart::kCoreAttention, LayerPart::kMlp, LayerPart::kNorm}}) {
      const ParallelPlan plan{
          {},
          {.recompute = Recompute::kSelective, .recompute_parts = parts, .attention = Attention::kUnfused}};
      double again = 0;
      for (const OpDesc& op : LayerRecomputeOps({model, workload, plan})) {
        const auto dim = [&op](std::size_t i) { return static_cast<double>(op.dims[i]); };
        if (op.kind == OpKind::kMatmul) again += 2 * dim(0) * dim(1) * dim(2);
        if (op.kind == OpKind::kUnfusedAttentionForward)
          again += 4 * dim(0) * dim(1) * dim(1) * dim(2) * dim(3);
      }
      const double once = ModelFlops(model, 2048, 2048);
      EXPECT_NEAR((HardwareFlops(model, plan, 2048, 2048) - once) / once, 24 * again / once, 1e-9)
          << Name(activation) << " " << RecomputeText(plan);
    }
  }
}

TEST(PeakFlops, IsPerPrecision) {
  DeviceSpec device{.flops_per_s_fp32 = 1e12, .flops_per_s_bf16 = 2e14};
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp32")), 1e12);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("bf16")), 2e14);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp64")), std::nullopt);
  device.flops_per_s_fp8 = 4e14;
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp8")), 4e14);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp8_block")), 4e14)
      << "the scales of blocks are applied beside";
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("mxfp8")), std::nullopt) << "tensor cores apply its scales";
  device.flops_per_s_mxfp8 = 5e14;
  device.flops_per_s_nvfp4 = 1e15;
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("mxfp8")), 5e14);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("nvfp4")), 1e15);
}

}  // namespace
}  // namespace autocfg
