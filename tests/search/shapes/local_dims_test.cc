// Tests the dims of a rank against published models, divided by hand.
#include "search/shapes/local_dims.h"

#include "gtest/gtest.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

// Radford et al. 2019, table 2; 50,257 tokens are padded to 393 x 128.
TEST(LocalDims, Gpt2OnOneRank) {
  const LocalDims expected{.micro_batch = 8,
                           .seq_len = 1024,
                           .tokens = 8192,
                           .rows = 8192,
                           .hidden = 768,
                           .message = 8192 * 768,
                           .heads = 12,
                           .kv_heads = 12,
                           .head_dim = 64,
                           .attention = 768,
                           .qkv = 2304,
                           .ffn = 3072,
                           .fc = 3072,
                           .vocab = 50304};
  EXPECT_EQ(LocalDimsOf(
                {*ModelPreset("gpt2-124m"), {.global_batch = 8, .seq_len = 1024}, {{}, {.micro_batch = 8}}}),
            expected);
}

// Brown et al. 2020, table 2.1. Over 8 ranks the 50,257 tokens are padded to the 51,200 of Narayanan et al.
// 2021, section 5.
TEST(LocalDims, Gpt3OverEightRanks) {
  const LocalDims expected{.micro_batch = 2,
                           .seq_len = 2048,
                           .tokens = 4096,
                           .rows = 4096,
                           .hidden = 12288,
                           .message = 4096 * 12288,
                           .heads = 12,
                           .kv_heads = 12,
                           .head_dim = 128,
                           .attention = 1536,
                           .qkv = 4608,
                           .ffn = 6144,
                           .fc = 6144,
                           .vocab = 6400};
  EXPECT_EQ(LocalDimsOf({*ModelPreset("gpt3-175b"),
                         {.global_batch = 1536, .seq_len = 2048},
                         {{.tp = 8, .pp = 16, .dp = 6}, {.micro_batch = 2}}}),
            expected);
}

// Llama Team 2024, table 3: 64 heads, 8 key-value heads, a gated feed-forward of 28,672. 128,256 tokens are
// padded to 126 x 1024.
TEST(LocalDims, Llama3OverEightRanks) {
  const LocalDims expected{.micro_batch = 1,
                           .seq_len = 8192,
                           .tokens = 8192,
                           .rows = 8192,
                           .hidden = 8192,
                           .message = 8192 * 8192,
                           .heads = 8,
                           .kv_heads = 1,
                           .head_dim = 128,
                           .attention = 1024,
                           .qkv = 1280,
                           .ffn = 3584,
                           .fc = 7168,
                           .vocab = 16128};
  EXPECT_EQ(
      LocalDimsOf({*ModelPreset("llama3-70b"), {.global_batch = 64, .seq_len = 8192}, {{.tp = 8, .dp = 2}}}),
      expected);
}

// With sequence parallelism a rank holds its share of the tokens, and sends that.
TEST(LocalDims, OwnRowsAndMessages) {
  const ModelSpec model{
      .layers = 2, .hidden = 5, .heads = 4, .kv_heads = 4, .head_dim = 2, .ffn_hidden = 8, .vocab = 8};
  const auto dims = [&](bool sequence_parallel, bool scatter_gather) {
    ParallelPlan plan{{.tp = 4, .pp = 2}, {.micro_batch = 3, .sequence_parallel = sequence_parallel}};
    plan.scatter_gather = scatter_gather;
    return LocalDimsOf({model, {.global_batch = 6, .seq_len = 12}, plan});
  };
  EXPECT_EQ(dims(false, false).rows, 36);
  EXPECT_EQ(dims(false, false).message, 180);
  EXPECT_EQ(dims(true, false).rows, 9);
  EXPECT_EQ(dims(true, false).message, 45);
  EXPECT_EQ(dims(true, true).message, 45) << "nothing to scatter";
  ParallelPlan odd{{.tp = 4, .pp = 2}};
  odd.scatter_gather = true;
  EXPECT_EQ(LocalDimsOf({model, {.global_batch = 1, .seq_len = 1}, odd}).message, 8)
      << "5, in four equal parts";
}

}  // namespace
}  // namespace autocfg
