// Settings of Megatron-LM and NeMo that say what a run keeps in memory: dropout, and which attention it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kFlags =
    "--num-layers 12\n--hidden-size 512\n--num-attention-heads 8\n--seq-length 1024\n"
    "--max-position-embeddings 1024\n--micro-batch-size 4\n--global-batch-size 32\n"
    "--tokenizer-type GPT2BPETokenizer\n--bf16\n";

FrameworkRun ReadFlags(const std::string& more, bool fused_attention = true) {
  ReadingOptions options;
  options.ranks = 8;
  options.fused_attention = fused_attention;
  const auto run = ReadFrameworkFile(kMegatron, "run.args", std::string(kFlags) + more, options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.value_or(FrameworkRun());
}

// arguments.py of core 0.15: --attention-dropout and --hidden-dropout are 0.1.
TEST(KeptMemory, DropoutIsTheFrameworksDefaultUnlessItIsSaid) {
  EXPECT_EQ(ReadFlags("").model.dropout, 0.1);
  EXPECT_EQ(ReadFlags("").model.attention_dropout, std::nullopt) << "the same";
  const FrameworkRun none = ReadFlags("--hidden-dropout 0\n--attention-dropout 0.0\n");
  EXPECT_EQ(none.model.dropout, 0);
  EXPECT_EQ(AttentionDropout(none.model), 0);
  const FrameworkRun hidden = ReadFlags("--attention-dropout 0\n");
  EXPECT_EQ(hidden.model.dropout, 0.1);
  EXPECT_EQ(AttentionDropout(hidden.model), 0);
  const FrameworkRun attention = ReadFlags("--hidden-dropout 0.0\n");
  EXPECT_EQ(attention.model.dropout, 0);
  EXPECT_EQ(AttentionDropout(attention.model), 0.1);
}

TEST(KeptMemory, DropoutOfAllIsRefused) {
  ReadingOptions options;
  options.ranks = 8;
  const auto run =
      ReadFrameworkFile(kMegatron, "run.args", std::string(kFlags) + "--hidden-dropout 1\n", options);
  EXPECT_EQ(run.status().message(), "run.args:10: --hidden-dropout is 1; it must be from 0 to below 1");
}

TEST(KeptMemory, LayersOfItsOwnStoreScores) {
  EXPECT_EQ(ReadFlags("--transformer-impl local\n").plan.attention, Attention::kUnfused);
  EXPECT_EQ(ReadFlags("--transformer-impl transformer_engine\n").plan.attention, Attention::kFused);
}

TEST(KeptMemory, ADeviceWithoutFusedAttentionStoresScores) {
  const FrameworkRun run = ReadFlags("", /*fused_attention=*/false);
  EXPECT_EQ(run.plan.attention, Attention::kUnfused);
  EXPECT_THAT(run.notes, Contains(HasSubstr("the device has no fused attention")));
  EXPECT_THAT(ReadFlags("").notes, Not(Contains(HasSubstr("fused attention"))));
}

TEST(KeptMemory, ChunksOfRecomputedLayersAreAFigureOfTheEngine) {
  const auto engine = [](const std::string& flags) { return ReadFlags(flags).engine; };
  const std::string full = "--recompute-granularity full\n--recompute-method ";
  EXPECT_EQ(engine(full + "uniform\n--recompute-num-layers 1\n"), "megatron");
  EXPECT_EQ(engine(full + "uniform\n--recompute-num-layers 4\n"), "megatron:recompute_chunk=4");
  EXPECT_EQ(engine(full + "block\n--recompute-num-layers 4\n"), "megatron");
  EXPECT_EQ(engine(""), "megatron");
}

// megatron/core/fusions/fused_cross_entropy.py and Transformer Engine's cross_entropy.py.
TEST(KeptMemory, AFusedCrossEntropyIsAFigureOfTheEngine) {
  EXPECT_EQ(ReadFlags("--cross-entropy-loss-fusion\n").engine, "megatron:logit_bytes=8");
  EXPECT_EQ(ReadFlags("--cross-entropy-loss-fusion\n--cross-entropy-fusion-impl native\n").engine,
            "megatron:logit_bytes=8");
  EXPECT_EQ(ReadFlags("--cross-entropy-loss-fusion\n--cross-entropy-fusion-impl te\n").engine,
            "megatron:logit_bytes=0");
  EXPECT_EQ(ReadFlags("--cross-entropy-fusion-impl te\n").engine, "megatron") << "nothing is fused";
}

TEST(KeptMemory, BucketsOfDeepSpeedAreFiguresOfTheEngine) {
  const auto engine = [](const std::string& zero) {
    ReadingOptions options;
    options.ranks = 8;
    options.model = ModelSpec{.layers = 4, .hidden = 512, .heads = 8, .vocab = 50257, .max_seq_len = 1024};
    const auto run = ReadFrameworkFile(kDeepSpeed, "ds.json",
                                       R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, )"
                                       R"("zero_optimization": {)" +
                                           zero + "}}",
                                       options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->engine : "";
  };
  EXPECT_EQ(engine(R"("stage": 2)"), "deepspeed");
  EXPECT_EQ(engine(R"("stage": 2, "reduce_bucket_size": 5e8, "allgather_bucket_size": 500000000)"),
            "deepspeed");
  EXPECT_EQ(engine(R"("stage": 2, "reduce_bucket_size": 2e8, "allgather_bucket_size": 300000000)"),
            "deepspeed:overhead_bytes=1000000000");
  EXPECT_EQ(engine(R"("stage": 0, "reduce_bucket_size": 2e8)"), "deepspeed");
  EXPECT_EQ(engine(R"("stage": 3, "sub_group_size": 1e7)"), "deepspeed:updated_at_once=10000000");
  EXPECT_EQ(engine(R"("stage": 2, "sub_group_size": 1e7)"), "deepspeed") << "it acts in stage 3";
}

TEST(KeptMemory, OfNemoIsTheSame) {
  const auto dropout = [](const std::string& more) {
    ReadingOptions options;
    options.ranks = 8;
    const auto run = ReadFrameworkFile(
        kNemo, "run.yaml",
        "trainer:\n  devices: 8\n  num_nodes: 1\n  precision: bf16\nmodel:\n  num_layers: 12\n  hidden_size: "
        "512\n"
        "  num_attention_heads: 8\n  encoder_seq_length: 1024\n  max_position_embeddings: 1024\n"
        "  micro_batch_size: 4\n  global_batch_size: 32\n  tokenizer:\n    type: GPT2BPETokenizer\n" +
            more,
        options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->model.dropout : -1;
  };
  EXPECT_EQ(dropout(""), 0.1);
  EXPECT_EQ(dropout("  hidden_dropout: 0.0\n"), 0);
}

}  // namespace
}  // namespace autocfg
