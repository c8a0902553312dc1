#include "search/cost/memory_model.h"

#include <random>

#include "gtest/gtest.h"
#include "search/plan/legality.h"
#include "search/schedule/program.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using testing::Fp32;
using testing::SmallGpt;

constexpr std::int64_t kMiB = 1 << 20;

// T = 64, H = 128, S = 32, N = 4, A = 64, F = 256, V = 512: no tensor needs padding, so every figure can be
// done by hand.
TEST(MemoryModel, ByHand) {
  const ModelSpec model = SmallGpt(2, 128, 8, 1000);
  const Workload workload = Fp32(8, 32);
  ParallelPlan plan;
  plan.tp = plan.pp = plan.dp = 2;
  plan.micro_batch = 2;

  const std::int64_t layer = 512 + 128 * 192 + 192 + 64 * 128 + 128 + 128 * 256 + 256 + 256 * 128 + 128;
  const MemoryBytes first = RankMemory(model, workload, plan, 0);
  EXPECT_EQ(first.parameters, 4 * (layer + 512 * 128 + 64 * 128));
  EXPECT_EQ(first.gradients, first.parameters);
  EXPECT_EQ(first.optimizer, 2 * first.parameters);
  const std::int64_t hidden = 4 * 64 * 128, inner = 4 * 4 * 64 + 3 * hidden + 4 * 64 * 192 + 4 * 2 * 4 * 32 +
                                                    4 * 64 * 64 + 2 * 4 * 64 * 256;
  EXPECT_EQ(first.activations,
            2 * (4 * 64 + hidden + inner));  // two microbatches in flight of 1f1b's first of two stages
  const std::int64_t workspace =
      hidden + 4 * 64 * 192 + 4 * 64 * 64 + 4 * 64 * 256 + 4 * (2 * 32 * 32 + 32) + 64;
  EXPECT_EQ(first.workspace, workspace);
  EXPECT_EQ(first.communication, 4 * hidden + 4 * kMiB);

  const MemoryBytes last = RankMemory(model, workload, plan, 1);
  EXPECT_EQ(last.parameters, 4 * (layer + 512 * 128 + 256));
  EXPECT_EQ(last.activations,
            hidden + inner + hidden + 2 * 4 * 64 + hidden + 4 * 64 * 512 + 4 * 64 + 4 * 2 * 64 + 4 * 64);
  EXPECT_EQ(last.communication, 2 * hidden + 4 * kMiB);

  plan.recompute = Recompute::kFull;
  EXPECT_EQ(RankMemory(model, workload, plan, 0).activations, 2 * (4 * 64 + hidden));
  EXPECT_EQ(RankMemory(model, workload, plan, 0).workspace, workspace + inner);

  ParallelPlan alone;
  alone.micro_batch = 2;
  const MemoryBytes one = RankMemory(model, workload, alone, 0);
  EXPECT_EQ(one.communication, 0);
  EXPECT_EQ(one.parameters, 4 * (2 * (512 + 128 * 384 + 384 + 128 * 128 + 128 + 2 * 128 * 512 + 512 + 128) +
                                 1024 * 128 + 64 * 128 + 256));
}

TEST(MemoryModel, EachTensorIsPadded) {
  const ModelSpec model = SmallGpt(1, 25, 1, 100);
  const Workload workload = Fp32(1, 3);
  const MemoryBytes m = RankMemory(model, workload, ParallelPlan(), 0);
  for (std::int64_t bytes : {m.parameters, m.gradients, m.optimizer, m.activations, m.workspace})
    EXPECT_EQ(bytes % 64, 0);
  const auto pad = [](std::int64_t n) { return (4 * n + 63) / 64 * 64; };
  // x, 4 statistics, ln1, mid, ln2, qkv, lse, attn, fc, gelu, tokens; x_final, ln_f, mean, rstd, max, logits,
  // sums, targets.
  EXPECT_EQ(m.activations, 6 * pad(75) + 4 * pad(3) + pad(225) + pad(3) + pad(75) + 2 * pad(300) + pad(3) +
                               3 * pad(3) + pad(3 * 128) + pad(6) + pad(3));
}

// What a schedule keeps in flight, in closed form here, counted in its order there; and the worst rank is the
// worst of all.
TEST(MemoryModel, InFlightMatchesTheSchedules) {
  const ModelSpec model = SmallGpt(16);
  int compared = 0;
  for (std::int64_t pp : {1, 2, 4, 8, 16}) {
    for (std::int64_t batch : {1, 2, 3, 7, 24}) {
      for (Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB}) {
        for (Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
          ParallelPlan plan;
          plan.pp = pp;
          plan.schedule = schedule;
          plan.recompute = recompute;
          const Workload workload = Fp32(batch, 16), one = Fp32(1, 16);
          MemoryBytes worst;
          for (std::int64_t stage = 0; stage < pp; ++stage) {
            const MemoryBytes bytes = RankMemory(model, workload, plan, stage);
            const int at = static_cast<int>(stage);
            const int slots = MaxInFlight(MakeComputeOrder(plan, at, static_cast<int>(batch)), at);
            EXPECT_EQ(bytes.activations, slots * RankMemory(model, one, plan, stage).activations);
            if (bytes.Arena() > worst.Arena()) worst = bytes;
            ++compared;
          }
          EXPECT_EQ(WorstRankMemory(model, workload, plan), worst);
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
}

}  // namespace
}  // namespace autocfg
