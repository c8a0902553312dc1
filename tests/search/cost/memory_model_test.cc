#include "search/cost/memory/memory_model.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "search/ops/memory_sizes.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"
#include "search/schedule/program.h"
#include "search/shapes/local_dims.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/support/llama_parts.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::RandomRun;
using test::RandomRuns;
using test::SmallGpt;

constexpr std::int64_t kMiB = 1 << 20;

// The 22B model of Korthikanti et al. 2022, with so many of its layers.
MemoryBytes MemoryOfThePaper(std::int64_t layers, const ParallelPlan& plan, double dropout = 0) {
  const ModelSpec model{.layers = layers,
                        .hidden = 6144,
                        .heads = 64,
                        .kv_heads = 64,
                        .head_dim = 96,
                        .ffn_hidden = 4 * 6144,
                        .vocab = 51200,
                        .max_seq_len = 2048,
                        .dropout = dropout};
  const Workload workload{.global_batch = 4, .seq_len = 2048, .precision = *ParsePrecision("bf16")};
  return RankMemory({model, workload, plan}, 0);
}

// Korthikanti et al. 2022, table 2, in bytes of one layer with 16-bit elements: s b h (10 + 24 / t) under
// tensor parallelism, s b h 34 / t under sequence parallelism; unfused attention adds 5 a s^2 b / t. Without
// dropout, of the 10 and of the 34, 2 are not there, its masks, and of the 5, 3, the mask and the output of
// attention's dropout. The paper leaves out statistics: here each norm keeps a mean and a deviation of each
// row, and fused attention one sum of each row and head, in fp32.
TEST(MemoryModel, ActivationsOfALayerAreThoseOfThePaper) {
  const std::int64_t s = 2048, b = 4, h = 6144, a = 64;
  for (const std::int64_t t : {1, 2, 8}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const Attention attention : {Attention::kFused, Attention::kUnfused}) {
        const ParallelPlan plan = Canonical(
            {{.tp = t}, {.micro_batch = b, .attention = attention, .sequence_parallel = sequence_parallel}});
        for (const double dropout : {0.0, 0.1}) {
          const auto activations = [&](std::int64_t layers) {
            return MemoryOfThePaper(layers, plan, dropout).activations;
          };
          const std::int64_t rows = sequence_parallel ? s * b / t : s * b;
          std::int64_t bytes = sequence_parallel ? 34 * s * b * h / t : 10 * s * b * h + 24 * s * b * h / t;
          bytes += attention == Attention::kUnfused ? 5 * a * s * s * b / t : 4 * a * s * b / t;
          bytes += 2 * 2 * 4 * rows;
          if (dropout == 0) {
            bytes -= 2 * rows * h;
            if (attention == Attention::kUnfused) bytes -= 3 * a * s * s * b / t;
          }
          EXPECT_EQ(activations(2) - activations(1), bytes)
              << t << " " << sequence_parallel << " " << dropout;
        }
      }
    }
  }
}

// The same table by tensor (section 4.1): each norm writes 2 s b h bytes, the products and the activation of
// feed-forward 8 s b h each. A part that is computed again leaves its tensors to one set in the workspace.
TEST(MemoryModel, PartsThatAreComputedAgainAreThoseOfThePaper) {
  const std::int64_t s = 2048, b = 4, h = 6144, a = 64;
  for (const std::int64_t t : {1, 8}) {
    const auto memory = [&](std::int64_t layers, const std::string& recompute) {
      ParallelPlan plan{{.tp = t}, {.micro_batch = b, .attention = Attention::kUnfused}};
      const PlanOption& option = *FindPlanOption("recompute");
      EXPECT_TRUE(option.parse(option, recompute, plan).ok());
      return MemoryOfThePaper(layers, plan);
    };
    const std::int64_t norms = 2 * (2 * s * b * h + 2 * 4 * s * b), product = 8 * s * b * h / t,
                       scores = 2 * a * s * s * b / t;
    for (const auto& [recompute, bytes] : {std::pair<std::string, std::int64_t>{"selective:norm", norms},
                                           {"selective:mlp", 2 * product},
                                           {"selective:act", product},
                                           {"selective:core_attn", scores},
                                           {"selective:core_attn+mlp+norm", scores + 2 * product + norms}}) {
      const MemoryBytes stored = memory(2, "none"), again = memory(2, recompute);
      EXPECT_EQ(stored.activations - again.activations, 2 * bytes) << t << " " << recompute;
      EXPECT_EQ(again.workspace - stored.workspace, bytes) << t << " " << recompute;
    }
  }
}

// T = 64, H = 128, S = 32, N = 4, A = 64, F = 256, V = 512: no tensor needs padding, so all figures can be
// computed by hand.
TEST(MemoryModel, ByHand) {
  const ModelSpec model = SmallGpt(2, 128, 8, 1000);
  const Workload workload = Fp32(8, 32);
  ParallelPlan plan;
  plan.tp = plan.pp = plan.dp = 2;
  plan.micro_batch = 2;

  const std::int64_t layer = 512 + 128 * 192 + 192 + 64 * 128 + 128 + 128 * 256 + 256 + 256 * 128 + 128;
  const MemoryBytes first = RankMemory({model, workload, plan}, 0);
  EXPECT_EQ(first.parameters, 4 * (layer + 512 * 128 + 64 * 128));
  EXPECT_EQ(first.gradients, first.parameters);
  EXPECT_EQ(first.optimizer, 2 * first.parameters);
  const std::int64_t hidden = 4 * 64 * 128, inner = 4 * 4 * 64 + 3 * hidden + 4 * 64 * 192 + 4 * 2 * 4 * 32 +
                                                    4 * 64 * 64 + 2 * 4 * 64 * 256;
  EXPECT_EQ(first.activations,
            2 * (4 * 64 + hidden + inner));  // 1f1b: the first of two stages has two microbatches in flight
  const std::int64_t workspace =
      hidden + 4 * 64 * 192 + 4 * 64 * 64 + 4 * 64 * 256 + 4 * (2 * 32 * 32 + 32) + 64;
  EXPECT_EQ(first.workspace, workspace);
  EXPECT_EQ(first.communication, 4 * hidden + 4 * kMiB);

  const MemoryBytes last = RankMemory({model, workload, plan}, 1);
  EXPECT_EQ(last.parameters, 4 * (layer + 512 * 128 + 256));
  EXPECT_EQ(last.activations,
            hidden + inner + hidden + 2 * 4 * 64 + hidden + 4 * 64 * 512 + 4 * 64 + 4 * 2 * 64 + 4 * 64);
  EXPECT_EQ(last.communication, 2 * hidden + 4 * kMiB);

  plan.recompute = Recompute::kFull;
  EXPECT_EQ(RankMemory({model, workload, plan}, 0).activations, 2 * (4 * 64 + hidden));
  EXPECT_EQ(RankMemory({model, workload, plan}, 0).workspace, workspace + inner);

  ParallelPlan alone;
  alone.micro_batch = 2;
  const MemoryBytes one = RankMemory({model, workload, alone}, 0);
  EXPECT_EQ(one.communication, 0);
  EXPECT_EQ(one.parameters, 4 * (2 * (512 + 128 * 384 + 384 + 128 * 128 + 128 + 2 * 128 * 512 + 512 + 128) +
                                 1024 * 128 + 64 * 128 + 256));
}

TEST(MemoryModel, EachTensorIsPadded) {
  const ModelSpec model = SmallGpt(1, 25, 1, 100);
  const Workload workload = Fp32(1, 3);
  const MemoryBytes m = RankMemory({model, workload, ParallelPlan()}, 0);
  for (std::int64_t bytes : {m.parameters, m.gradients, m.optimizer, m.activations, m.workspace})
    EXPECT_EQ(bytes % 64, 0);
  const auto pad = [](std::int64_t n) { return (4 * n + 63) / 64 * 64; };
  // x, 4 statistics, ln1, mid, ln2, qkv, lse, attn, fc, gelu, tokens; x_final, ln_f, mean, rstd, logits,
  // targets.
  EXPECT_EQ(m.activations, 6 * pad(75) + 4 * pad(3) + pad(225) + pad(3) + pad(75) + 2 * pad(300) + pad(3) +
                               2 * pad(3) + pad(3 * 128) + pad(3));
}

// T = 48, H = 96, S = 16, N = 2, G = 1, D = 16: A = 32, Q = 64; F = 40, W = 80; V = 128; bf16 with fp32
// statistics and master copies. Of the tensors only those of norms, of H elements, need padding: to 128.
TEST(MemoryModel, LlamaByHand) {
  ModelSpec model = SmallGpt(7, 96, 4, 200);
  model.kv_heads = 2;
  model.head_dim = 16;
  model.ffn_hidden = 80;
  SetLlamaParts(model);
  const Workload workload{.global_batch = 12, .seq_len = 16, .precision = *ParsePrecision("bf16")};
  ParallelPlan plan;
  plan.tp = plan.pp = plan.virtual_stages = 2;
  plan.micro_batch = 3;
  plan.schedule = Schedule::kInterleaved;
  plan.split = SplitMode::kExplicit;
  plan.split_layers = {1, 2, 1, 3};  // rank 0: 1 and 1, rank 1: 2 and 3
  plan.recompute = Recompute::kFull;
  plan.recompute_layers = 2;

  const std::int64_t layer = 128 + 96 * 64 + 32 * 96 + 128 + 96 * 80 + 40 * 96, table = 128 * 96;
  const MemoryBytes first = RankMemory({model, workload, plan}, 0),
                    last = RankMemory({model, workload, plan}, 1);
  EXPECT_EQ(first.parameters, 2 * (table + 2 * layer));
  EXPECT_EQ(first.gradients, 2 * first.parameters);
  EXPECT_EQ(first.optimizer, 3 * first.gradients) << "copies and two moments";
  EXPECT_EQ(last.parameters, 2 * (5 * layer + 128 + table));

  const std::int64_t hidden = 2 * 48 * 96;
  const std::int64_t inner = 2 * 4 * 48 + 3 * hidden + 2 * 48 * (64 + 32 + 80 + 40) + 4 * 3 * 2 * 16;
  const auto slots = [&](std::int64_t stage) {
    return static_cast<std::int64_t>(
        MaxInFlight(MakeComputeOrder(plan, static_cast<int>(stage % 2), 4), static_cast<int>(stage)));
  };
  EXPECT_EQ(first.activations, slots(0) * (4 * 48 + hidden) + slots(2) * hidden);
  EXPECT_EQ(last.activations,
            slots(1) * 2 * hidden + slots(3) * (3 * hidden + inner + 2 * hidden + 4 * 48 + 2 * 48 * 128 +
                                                4 * 48 + 2 * 4 * 48 + 4 * 48));
  const std::int64_t workspace = hidden + 2 * 48 * (64 + 32 + 40 + 80) + 4 * (2 * 16 * 16 + 16) + inner + 64;
  EXPECT_EQ(first.workspace, workspace);
  EXPECT_EQ(last.workspace, workspace);
  EXPECT_EQ(first.communication, 4 * hidden + 2 * kMiB);
  EXPECT_EQ(last.communication, 4 * hidden + 2 * kMiB)
      << "its first stage sends, and there is no embedding group";

  // Stored scores occupy the slot, and their gradient the workspace. Selective recomputation moves the scores
  // to the workspace too.
  plan.recompute_layers = 0;
  plan.recompute = Recompute::kNone;
  const MemoryBytes fused = RankMemory({model, workload, plan}, 0);
  plan.attention = Attention::kUnfused;
  const std::int64_t scores = 2 * 3 * 2 * 16 * 16, lse = 4 * 3 * 2 * 16, attention = 4 * (2 * 16 * 16 + 16);
  const MemoryBytes unfused = RankMemory({model, workload, plan}, 0);
  EXPECT_EQ(unfused.activations - fused.activations, (slots(0) + slots(2)) * (scores - lse));
  EXPECT_EQ(unfused.workspace - fused.workspace, scores - attention);
  plan.recompute = Recompute::kSelective;
  const MemoryBytes selective = RankMemory({model, workload, plan}, 0);
  EXPECT_EQ(selective.activations - fused.activations, (slots(0) + slots(2)) * -lse);
  EXPECT_EQ(selective.workspace - fused.workspace, 2 * scores - attention);
}

// Compares with the slots that the plan's program needs: the activations are those of each stage times
// its slots.
TEST(MemoryModel, InFlightMatchesTheSchedules) {
  RandomRuns runs(41);
  int compared = 0, split = 0;
  for (int i = 0; i < 400; ++i) {
    const RandomRun run = runs.Next();
    // As many microbatches as keep one in flight on each stage.
    ParallelPlan gpipe = run.plan;
    gpipe.schedule = Schedule::kGPipe;
    Workload one = run.workload;
    one.global_batch = run.plan.dp * run.plan.micro_batch;
    const std::int64_t m = MicrobatchCount(run.workload, run.plan);
    const Program program = Lower(run);
    for (std::int64_t rank = 0; rank < run.plan.pp; ++rank) {
      const RankProgram& list = program.ranks[static_cast<std::size_t>(rank * run.plan.tp * run.plan.dp)];
      const std::int64_t whole = RankMemory(run, rank).activations;
      if (SplitsBackward(run.plan)) {
        // Stage 0 has a buffer of a message for its input. The last stage has one set of the head's tensors,
        // which are all that its slots have more than those of a middle stage with as many layers.
        std::int64_t once = RankMemory({run.model, one, gpipe}, rank).activations;
        const std::int64_t slots = ActivationSlots(list, rank);
        const LocalDims dims = LocalDimsOf(run);
        const auto bytes = [&](std::int64_t elements) {
          return AlignedBytes(elements * SizeOf(run.workload.precision.compute));
        };
        if (rank == 0) once += bytes(dims.message) - bytes(dims.rows * dims.hidden);
        if (rank + 1 < run.plan.pp) {
          EXPECT_EQ(whole, slots * once);
          ++split;
        } else {
          EXPECT_GE(whole, once);
          EXPECT_LT(whole, slots == 1 ? once + 1 : slots * once);
        }
      } else if (run.plan.virtual_stages == 1) {
        EXPECT_EQ(whole, ActivationSlots(list, rank) * RankMemory({run.model, one, gpipe}, rank).activations);
      } else {
        // The slots of a rank lie between the minimum and the maximum over its stages.
        std::int64_t least = m, most = 0;
        for (std::int64_t stage = rank; stage < StageCount(run.plan); stage += run.plan.pp) {
          const std::int64_t slots = ActivationSlots(list, stage);
          least = std::min(least, slots);
          most = std::max(most, slots);
        }
        const std::int64_t once = RankMemory({run.model, one, gpipe}, rank).activations;
        EXPECT_GE(whole, least * once);
        EXPECT_LE(whole, most * once);
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(split, 100);
}

// ZB-H1 takes the memory of 1F1B: every rank has as many slots as 1F1B's first rank, of the same size. Beside
// them are one set of the head's tensors, which 1F1B has too, and two more tensors of the workspace.
TEST(MemoryModel, ZeroBubbleTakesTheMemoryOfOneFOneB) {
  const ModelSpec model = test::SmallGpt(8, 64, 4);
  const Workload workload = test::Fp32(8, 16);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    ParallelPlan plan{{.tp = 2, .pp = 4}, {.recompute = recompute}};
    ParallelPlan split = plan;
    split.schedule = Schedule::kZeroBubbleH1;
    const std::int64_t slot = RankMemory({model, workload, plan}, 1).activations / 3;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      MemoryBytes expected = RankMemory({model, workload, plan}, rank);
      expected.activations += rank * slot;
      expected.workspace += 2 * (4 * 16 * 64);
      EXPECT_EQ(RankMemory({model, workload, split}, rank), expected) << rank;
    }
    const std::int64_t first = RankMemory({model, workload, plan}, 0).activations;
    EXPECT_EQ(RankMemory({model, workload, split}, 2).activations, 4 * slot);
    EXPECT_EQ(first - 4 * slot, 4 * (4 * 16)) << "the first rank's slots hold tokens too";
  }
}

// The worst rank is the maximum over all ranks, to the byte.
TEST(MemoryModel, WorstRankIsTheMaximum) {
  RandomRuns runs(43, {.pp = {1, 2, 3, 4, 5, 8, 16}, .microbatches = 70});
  std::set<std::int64_t> worst_ranks;
  for (int i = 0; i < 3000; ++i) {
    const RandomRun run = runs.Next();
    MemoryBytes worst;
    std::int64_t worst_rank = 0;
    for (std::int64_t rank = 0; rank < run.plan.pp; ++rank) {
      const MemoryBytes bytes = RankMemory(run, rank);
      if (bytes.Arena() > worst.Arena()) {
        worst = bytes;
        worst_rank = rank;
      }
    }
    worst_ranks.insert(worst_rank);
    ASSERT_EQ(WorstRankMemory(run), worst) << i;
  }
  EXPECT_GT(worst_ranks.size(), 5u);
}

}  // namespace
}  // namespace autocfg
