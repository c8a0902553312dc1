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

TEST(PeakFlops, OfThePrecisionWhereItIsKnown) {
  DeviceSpec device{.flops_per_s_fp32 = 1e12, .flops_per_s_bf16 = 2e14};
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp32")), 1e12);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("bf16")), 2e14);
  EXPECT_EQ(PeakFlops(device, *ParsePrecision("fp64")), std::nullopt);
}

}  // namespace
}  // namespace autocfg
