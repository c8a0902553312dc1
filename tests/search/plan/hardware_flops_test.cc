#include "search/plan/hardware_flops.h"

#include <gtest/gtest.h>

namespace autocfg {
namespace {

ModelSpec Gpt() {
  ModelSpec model{.layers = 24, .hidden = 1024, .heads = 16, .vocab = 51200};
  FillDefaults(model, 2048);
  return model;
}

TEST(HardwareFlops, FullRecomputationIsThePublishedFormula) {
  const double batch = 8, seq = 2048, layers = 24, hidden = 1024, vocab = 51200;
  ParallelPlan plan;
  EXPECT_EQ(HardwareFlops(Gpt(), plan, batch * seq, seq), ModelFlops(Gpt(), batch * seq, seq));
  plan.recompute = Recompute::kFull;
  const double published =
      96 * batch * seq * layers * hidden * hidden * (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden));
  EXPECT_NEAR(HardwareFlops(Gpt(), plan, batch * seq, seq) / published, 1, 1e-12);
}

TEST(HardwareFlops, OnlyTheLayersThatRecompute) {
  ParallelPlan plan{.pp = 4, .recompute = Recompute::kFull};
  const double once = ModelFlops(Gpt(), 2048, 2048);
  const double all = HardwareFlops(Gpt(), plan, 2048, 2048) - once;
  plan.recompute_layers = 3;  // of the 6 of each stage
  EXPECT_NEAR((HardwareFlops(Gpt(), plan, 2048, 2048) - once) / all, 0.5, 1e-9);
}

TEST(HardwareFlops, StageByStage) {
  ParallelPlan plan{.pp = 2, .split = SplitMode::kExplicit, .split_layers = {20, 4}, .recompute = Recompute::kFull};
  const double once = ModelFlops(Gpt(), 2048, 2048);
  const double all = HardwareFlops(Gpt(), plan, 2048, 2048) - once;
  plan.recompute_layers = 8;  // of the first stage; the second one has only 4
  EXPECT_NEAR((HardwareFlops(Gpt(), plan, 2048, 2048) - once) / all, 12.0 / 24, 1e-9);
}

// Both products over the scores are run again: 4 s h of the 12 s h FLOPs that attention takes per layer and token.
TEST(HardwareFlops, SelectiveRunsAttentionAgain) {
  const double tokens = 2048, seq = 2048, hidden = 1024, layers = 24;
  ParallelPlan plan{.recompute = Recompute::kSelective};
  EXPECT_EQ(HardwareFlops(Gpt(), plan, tokens, seq), ModelFlops(Gpt(), tokens, seq)) << "fused: nothing to act on";
  plan.attention = Attention::kUnfused;
  const double attention = ModelFlops(Gpt(), tokens, seq) - ModelFlops(Gpt(), tokens, 0);
  EXPECT_NEAR(attention, 12 * tokens * seq * hidden * layers, 1);
  EXPECT_NEAR((HardwareFlops(Gpt(), plan, tokens, seq) - ModelFlops(Gpt(), tokens, seq)) / attention, 1.0 / 3, 1e-9);
}

TEST(PeakFlops, OfThePrecisionWhereItIsKnown) {
  DeviceSpec device{.flops_per_s_fp32 = 1e12, .flops_per_s_bf16 = 2e14};
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp32")), 1e12);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("bf16")), 2e14);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp64")), std::nullopt);
}

}  // namespace
}  // namespace autocfg
