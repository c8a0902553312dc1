#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/blocks/embedding.h"
#include "search/blocks/head.h"
#include "search/blocks/layer.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_lists/rank_ops.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/program.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/support/llama_parts.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::RandomRun;
using test::RandomRuns;
using test::SmallGpt;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

std::vector<std::string> OpsText(const std::vector<OpDesc>& ops) {
  std::vector<std::string> text;
  for (const OpDesc& op : ops) text.push_back(ToString(op));
  return text;
}

// T = 64, H = 128, N = 4, D = 16, A = 64, F = 256, V = 512 (1000 rows padded to 1024, halved).
class LayerOpsTest : public ::testing::Test {
 protected:
  LayerOpsTest() {
    plan.tp = plan.pp = plan.dp = 2;
    plan.micro_batch = 2;
  }
  std::vector<std::string> Of(ActionKind kind, std::int64_t stage) const {
    return OpsText(ActionOps({model, workload, plan}, PipelineRankOf(plan, stage),
                             Action{.kind = kind, .stage = static_cast<std::int32_t>(stage)}));
  }
  ModelSpec model = SmallGpt(2, 128, 8, 1000);
  Workload workload = Fp32(8, 32);
  ParallelPlan plan;
};

TEST_F(LayerOpsTest, LayerForward) {
  EXPECT_THAT(OpsText(LayerForwardOps({model, workload, plan})),
              ElementsAre("layer_norm_forward fp32 64x128", "matmul fp32 nn bias 64x192x128",
                          "attention_forward fp32 2x32x4x16x4", "matmul fp32 nn 64x128x64",
                          "all_reduce_sum fp32 tensor/2 8192", "bias_residual fp32 64x128",
                          "layer_norm_forward fp32 64x128", "matmul fp32 nn activation gelu bias 64x256x128",
                          "matmul fp32 nn 64x128x256", "all_reduce_sum fp32 tensor/2 8192",
                          "bias_residual fp32 64x128"));
}

// Without a sum over a tensor group in between, the products add the residual themselves.
TEST_F(LayerOpsTest, LayerForwardOfOneTensorRank) {
  plan.tp = 1;
  EXPECT_THAT(OpsText(LayerForwardOps({model, workload, plan})),
              ElementsAre("layer_norm_forward fp32 64x128", "matmul fp32 nn bias 64x384x128",
                          "attention_forward fp32 2x32x8x16x8", "matmul fp32 nn residual bias 64x128x128",
                          "layer_norm_forward fp32 64x128", "matmul fp32 nn activation gelu bias 64x512x128",
                          "matmul fp32 nn residual bias 64x128x512"));
}

// A model of 6 layers, of which the third and the sixth attend to the whole sequence.
TEST_F(LayerOpsTest, SlidingWindowsOfSomeLayers) {
  model.layers = 6;
  model.layer_kinds = {{.layers = 2, .window = 8}, {.layers = 1}, {.layers = 2, .window = 8}, {.layers = 1}};
  EXPECT_EQ(LayerKindOf({model, workload, plan}, 0), LayerKind{.window = 8});
  EXPECT_EQ(LayerKindOf({model, workload, plan}, 5), LayerKind{});
  EXPECT_EQ(LayerKindOf(LayerRun{.window = 8, .chunk = 9}, 8), LayerKind{}) << "both as wide as the sequence";
  EXPECT_EQ(LayerKindOf(LayerRun{.chunk = 4, .rotary = false}, 8), (LayerKind{.rotates = false, .chunk = 4}));
  const LayerKind windowed{.window = 8};
  EXPECT_EQ(OpsText(LayerForwardOps({model, workload, plan}, windowed))[2],
            "attention_forward fp32 window=8 2x32x4x16x4");
  EXPECT_THAT(OpsText(LayerBackwardOps({model, workload, plan}, true, windowed)),
              ::testing::Contains("attention_backward fp32 window=8 2x32x4x16x4"));
  plan.attention = Attention::kUnfused;
  EXPECT_EQ(OpsText(LayerForwardOps({model, workload, plan}, windowed))[2],
            "unfused_attention_forward fp32 window=8 2x32x4x16x4");
  plan.attention = Attention::kFused;
  workload.seq_len = 8;
  EXPECT_EQ(OpsText(LayerForwardOps({model, workload, plan}, windowed))[2],
            "attention_forward fp32 2x8x4x16x4")
      << "as wide as the sequence";
  // Each chunk is a sequence.
  workload.seq_len = 32;
  EXPECT_EQ(OpsText(LayerForwardOps({model, workload, plan}, {.chunk = 8}))[2],
            "attention_forward fp32 8x8x4x16x4");
  EXPECT_THAT(OpsText(LayerBackwardOps({model, workload, plan}, true, {.chunk = 8})),
              ::testing::Contains("attention_backward fp32 8x8x4x16x4"));
  workload.seq_len = 8;
  model.attention_softcap = 50;
  EXPECT_EQ(OpsText(LayerForwardOps({model, workload, plan}))[2],
            "attention_forward fp32 softcap 2x8x4x16x4");
}

TEST_F(LayerOpsTest, ScalesAndSoftCaps) {
  const auto added = [this](auto change) {
    std::vector<std::string> plain, scaled;
    const auto all = [this](const ModelSpec& m) {
      std::vector<OpDesc> ops;
      for (const auto& part :
           {EmbeddingForwardOps({m, workload, plan}), EmbeddingBackwardOps({m, workload, plan}, true),
            HeadForwardOps({m, workload, plan}), HeadBackwardOps({m, workload, plan}, true)})
        ops.insert(ops.end(), part.begin(), part.end());
      return OpsText(ops);
    };
    ModelSpec changed = model;
    change(changed);
    std::vector<std::string> more = all(changed);
    for (const std::string& op : all(model)) more.erase(std::find(more.begin(), more.end(), op));
    return more;
  };
  EXPECT_THAT(added([](ModelSpec& m) { m.embedding_scale = 8; }),
              ElementsAre("scale fp32 64x128", "scale fp32 64x128"));
  EXPECT_THAT(added([](ModelSpec& m) { m.logit_scale = 0.5; }),
              ElementsAre("scale fp32 64x128", "scale fp32 64x128"));
  EXPECT_THAT(added([](ModelSpec& m) { m.attention_softcap = 50; }), ElementsAre());
}

// Norms on the outputs of both blocks, in place of those on their inputs or beside them.
TEST_F(LayerOpsTest, NormsOnOutputs) {
  plan.tp = 1;
  SetBiases(model, false);
  model.norm_placement = NormPlacement::kOutput;
  EXPECT_THAT(
      OpsText(LayerForwardOps({model, workload, plan})),
      ElementsAre("matmul fp32 nn 64x384x128", "attention_forward fp32 2x32x8x16x8",
                  "matmul fp32 nn 64x128x128", "layer_norm_forward fp32 64x128", "residual_add fp32 64x128",
                  "matmul fp32 nn activation gelu 64x512x128", "matmul fp32 nn 64x128x512",
                  "layer_norm_forward fp32 64x128", "residual_add fp32 64x128"));
  EXPECT_THAT(
      OpsText(LayerBackwardOps({model, workload, plan}, false)),
      ElementsAre("layer_norm_backward fp32 64x128", "matmul fp32 tn 512x128x64",
                  "matmul fp32 nt activation_gradient gelu 64x512x128", "matmul fp32 tn 128x512x64",
                  "matmul fp32 nt 64x128x512", "residual_add fp32 64x128", "layer_norm_backward fp32 64x128",
                  "matmul fp32 tn 128x128x64", "matmul fp32 nt 64x128x128",
                  "attention_backward fp32 2x32x8x16x8", "matmul fp32 tn 128x384x64",
                  "matmul fp32 nt 64x128x384", "residual_add fp32 64x128"));
  const auto norms = [this] {
    int count = 0;
    for (const OpDesc& op : LayerForwardOps({model, workload, plan}))
      count += op.kind == OpKind::kLayerNormForward;
    for (const OpDesc& op : LayerBackwardOps({model, workload, plan}, false))
      count += op.kind == OpKind::kLayerNormBackward;
    return count;
  };
  EXPECT_EQ(norms(), 4);
  model.norm_placement = NormPlacement::kSandwich;
  EXPECT_EQ(norms(), 8);
  model.norm_placement = NormPlacement::kPre;
  EXPECT_EQ(norms(), 4);
  // The backward needs what the norm on the layer's output reads, and its statistics.
  plan.recompute = Recompute::kFull;
  model.norm_placement = NormPlacement::kOutput;
  std::vector<OpDesc> forward = LayerForwardOps({model, workload, plan});
  forward.pop_back();
  EXPECT_EQ(LayerRecomputeOps({model, workload, plan}), forward);
  // Gradients of the stream are updated in place, by a norm or by a sum.
  const auto adds = [this] {
    const auto ops = OpsText(LayerBackwardOps({model, workload, plan}, false, {}, Gradients::kInputs));
    return std::count(ops.begin(), ops.end(), "residual_add fp32 64x128");
  };
  EXPECT_EQ(adds(), 2);
  model.norm_placement = NormPlacement::kSandwich;
  EXPECT_EQ(adds(), 0);
}

// The output of each block is scaled before the residual is added, and its gradient beside that of the
// stream.
TEST_F(LayerOpsTest, ScaledResiduals) {
  model.residual_scale = 0.22;
  int scales = 0;
  for (const OpDesc& op : LayerForwardOps({model, workload, plan})) scales += op.kind == OpKind::kScale;
  EXPECT_EQ(scales, 2);
  for (const OpDesc& op : LayerBackwardOps({model, workload, plan}, true))
    scales += op.kind == OpKind::kScale;
  EXPECT_EQ(scales, 4);
  // The bias comes before the scale, so that it does not come with the residual.
  EXPECT_THAT(OpsText(LayerForwardOps({model, workload, plan})),
              IsSupersetOf({"position_forward fp32 64x128", "residual_add fp32 64x128"}));
  const auto weights = OpsText(LayerBackwardOps({model, workload, plan}, true, {}, Gradients::kWeights));
  EXPECT_EQ(std::count(weights.begin(), weights.end(), "scale fp32 64x128"), 2) << "nothing keeps them";
  // Side by side, both blocks read the same gradient.
  model.parallel_residual = true;
  const auto backward = OpsText(LayerBackwardOps({model, workload, plan}, true));
  EXPECT_EQ(std::count(backward.begin(), backward.end(), "scale fp32 64x128"), 1);
}

TEST_F(LayerOpsTest, LayerBackward) {
  EXPECT_THAT(OpsText(LayerBackwardOps({model, workload, plan}, true)),
              ElementsAre("matmul fp32 tn acc bias_gradient 256x128x64",
                          "matmul fp32 nt activation_gradient gelu 64x256x128",
                          "matmul fp32 tn acc bias_gradient 128x256x64", "matmul fp32 nt 64x128x256",
                          "all_reduce_sum fp32 tensor/2 8192", "layer_norm_backward fp32 acc 64x128",
                          "matmul fp32 tn acc bias_gradient 64x128x64", "matmul fp32 nt 64x64x128",
                          "attention_backward fp32 2x32x4x16x4",
                          "matmul fp32 tn acc bias_gradient 128x192x64", "matmul fp32 nt 64x128x192",
                          "all_reduce_sum fp32 tensor/2 8192", "layer_norm_backward fp32 acc 64x128"));
}

TEST_F(LayerOpsTest, PartsOfALayerBackward) {
  EXPECT_THAT(OpsText(LayerBackwardOps({model, workload, plan}, true, {}, Gradients::kInputs)),
              ElementsAre("matmul fp32 nt activation_gradient gelu 64x256x128", "matmul fp32 nt 64x128x256",
                          "all_reduce_sum fp32 tensor/2 8192", "layer_norm_backward fp32 acc 64x128",
                          "residual_add fp32 64x128", "matmul fp32 nt 64x64x128",
                          "attention_backward fp32 2x32x4x16x4", "matmul fp32 nt 64x128x192",
                          "all_reduce_sum fp32 tensor/2 8192", "layer_norm_backward fp32 acc 64x128",
                          "residual_add fp32 64x128"));
  EXPECT_THAT(
      OpsText(LayerBackwardOps({model, workload, plan}, true, {}, Gradients::kWeights)),
      ElementsAre("matmul fp32 tn acc bias_gradient 256x128x64",
                  "matmul fp32 tn acc bias_gradient 128x256x64", "matmul fp32 tn acc bias_gradient 64x128x64",
                  "matmul fp32 tn acc bias_gradient 128x192x64"));
  // Under sequence parallelism both parts gather the gradients of the row-parallel layers' outputs.
  plan.sequence_parallel = true;
  const std::vector<std::string> weights =
      OpsText(LayerBackwardOps({model, workload, plan}, false, {}, Gradients::kWeights));
  ASSERT_EQ(weights.size(), 8u);
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    EXPECT_EQ(weights[i], "all_gather fp32 tensor/2 8192");
    EXPECT_EQ(weights[i + 1].rfind("matmul fp32 tn bias_gradient ", 0), 0u) << weights[i + 1];
  }
  const std::vector<std::string> input =
      OpsText(LayerBackwardOps({model, workload, plan}, true, {}, Gradients::kInputs));
  EXPECT_EQ(std::count(input.begin(), input.end(), "all_gather fp32 tensor/2 8192"), 2);
  EXPECT_EQ(std::count(input.begin(), input.end(), "reduce_scatter fp32 tensor/2 8192"), 2);
}

// A layer that recomputes its forward leaves nothing to the weight gradients. The head and the embedding
// never do. Together the two parts have the products of a whole backward.
TEST_F(LayerOpsTest, PartsOfAStageBackward) {
  using Sizes = std::pair<std::size_t, std::size_t>;
  model.layers = 6;
  const auto sizes = [&](std::int64_t stage) {
    return Sizes(Of(ActionKind::kInputGradient, stage).size(), Of(ActionKind::kWeightGradient, stage).size());
  };
  plan.schedule = Schedule::kZeroBubbleH1;
  EXPECT_EQ(sizes(0), Sizes(2 + 3 * 11, 3 * 4));
  EXPECT_EQ(sizes(1), Sizes(5 + 3 * 11, 3 * 4));
  EXPECT_EQ(Of(ActionKind::kInputGradient, 1)[1], "matmul fp32 tn acc 512x128x64") << "of the output layer";
  plan.recompute = Recompute::kFull;
  plan.recompute_layers = 2;
  EXPECT_EQ(sizes(0), Sizes(2 + 11 + 2 * (8 + 13), 4));
  EXPECT_EQ(Of(ActionKind::kInputGradient, 0)[11], "layer_norm_forward fp32 64x128")
      << "the second layer recomputes";
  plan.recompute_layers = 0;
  EXPECT_EQ(sizes(0), Sizes(2 + 3 * (8 + 13), 0));
  plan.recompute = Recompute::kSelective;
  plan.attention = Attention::kUnfused;
  EXPECT_EQ(sizes(0), Sizes(2 + 3 * (1 + 11), 3 * 4));
}

// The first microbatch's backward issues the same ops, but writes what the others add to. The embedding of a
// rank that has the head too always adds to what the head wrote.
TEST_F(LayerOpsTest, FirstBackwardWritesTheGradients) {
  const auto backward = [&](std::int64_t stage, std::int32_t microbatch) {
    return ActionOps({model, workload, plan}, stage,
                     Action{.kind = ActionKind::kBackward,
                            .stage = static_cast<std::int32_t>(stage),
                            .microbatch = microbatch});
  };
  for (const std::int64_t pp : {1, 2}) {
    plan.pp = pp;
    for (std::int64_t stage = 0; stage < pp; ++stage) {
      const std::vector<OpDesc> first = backward(stage, 0), later = backward(stage, 1);
      EXPECT_EQ(backward(stage, 7), later);
      ASSERT_EQ(first.size(), later.size());
      std::size_t written = 0;
      for (std::size_t i = 0; i < first.size(); ++i) {
        const bool of_parameters =
            later[i].transpose_a || (TakesAccumulate(later[i]) && later[i].kind != OpKind::kMatmul);
        EXPECT_EQ(later[i].accumulate, of_parameters) << ToString(later[i]);
        const bool adds_to_head = pp == 1 && first[i].kind == OpKind::kEmbeddingBackward;
        EXPECT_EQ(first[i].accumulate, adds_to_head) << ToString(first[i]);
        OpDesc same = first[i];
        same.accumulate = later[i].accumulate;
        EXPECT_EQ(same, later[i]);
        written += first[i] != later[i] ? 1 : 0;
      }
      EXPECT_GT(written, 5u);
    }
  }
}

TEST_F(LayerOpsTest, RecomputationRunsTheForwardWithoutItsLastThreeOps) {
  EXPECT_TRUE(LayerRecomputeOps({model, workload, plan}).empty());
  plan.recompute = Recompute::kFull;
  std::vector<OpDesc> forward = LayerForwardOps({model, workload, plan});
  forward.resize(forward.size() - 3);
  EXPECT_EQ(LayerRecomputeOps({model, workload, plan}), forward);
}

// Each part runs what the forward runs of it. Where the activation is apart from its product, that is an op
// of its own; else it reads the product that is stored.
TEST_F(LayerOpsTest, PartsOfALayerRunAgain) {
  const std::vector<OpDesc> forward = LayerForwardOps({model, workload, plan});
  plan.recompute = Recompute::kSelective;
  const auto again = [&](LayerParts parts) {
    plan.recompute_parts = parts;
    return LayerRecomputeOps({model, workload, plan});
  };
  EXPECT_TRUE(again({LayerPart::kCoreAttention}).empty()) << "attention is fused";
  std::vector<OpDesc> norms, products;
  for (const OpDesc& op : forward) {
    if (op.kind == OpKind::kLayerNormForward) norms.push_back(op);
    if (op.epilogue == Epilogue::kActivation) products.push_back(op);
  }
  ASSERT_EQ(norms.size(), 2u);
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(again({LayerPart::kNorm}), norms);
  EXPECT_EQ(again({LayerPart::kMlp}), products);
  EXPECT_EQ(again({LayerPart::kMlp, LayerPart::kActivation}), products);
  const std::vector<OpDesc> activation = again({LayerPart::kActivation});
  ASSERT_EQ(activation.size(), 1u);
  EXPECT_EQ(activation[0].kind, OpKind::kActivationForward);
  EXPECT_FALSE(activation[0].bias) << "the stored projection has it";
  EXPECT_EQ(activation[0].activation, model.activation);
  EXPECT_EQ(again({LayerPart::kNorm, LayerPart::kMlp}), (std::vector{norms[0], norms[1], products[0]}));
}

// A layer that computes inputs of its weights again delays no gradients.
TEST_F(LayerOpsTest, WhatWeightsReadIsNotComputedAgainLater) {
  plan.schedule = Schedule::kZeroBubbleH1;
  plan.recompute = Recompute::kSelective;
  for (const LayerPart part : {LayerPart::kMlp, LayerPart::kActivation, LayerPart::kNorm}) {
    plan.recompute_parts = {part};
    EXPECT_EQ(LayersWithDelayedGradients(plan, 4), 0);
    EXPECT_EQ(LayersWithRecomputeOps(plan, 4), 4);
  }
  plan.recompute_parts = {LayerPart::kCoreAttention};
  plan.attention = Attention::kUnfused;
  EXPECT_EQ(LayersWithDelayedGradients(plan, 4), 4);
  EXPECT_EQ(LayersWithRecomputeOps(plan, 4), 4);
}

TEST_F(LayerOpsTest, EmbeddingAndHead) {
  EXPECT_THAT(OpsText(EmbeddingForwardOps({model, workload, plan})),
              ElementsAre("embedding_forward fp32 64x128x512", "all_reduce_sum fp32 tensor/2 8192"));
  EXPECT_THAT(OpsText(PositionForwardOps({model, workload, plan})),
              ElementsAre("position_forward fp32 64x128"));
  EXPECT_THAT(OpsText(PositionBackwardOps({model, workload, plan}, true)),
              ElementsAre("position_backward fp32 acc 64x128"));
  EXPECT_THAT(OpsText(EmbeddingBackwardOps({model, workload, plan}, true)),
              ElementsAre("embedding_backward fp32 acc 64x128x512"));
  EXPECT_THAT(OpsText(HeadForwardOps({model, workload, plan})),
              ElementsAre("layer_norm_forward fp32 64x128", "matmul fp32 nt 64x512x128",
                          "cross_entropy_forward fp32 64x512", "all_reduce_max fp32 tensor/2 64",
                          "cross_entropy_rescale fp32 64", "all_reduce_sum fp32 tensor/2 128",
                          "cross_entropy_loss fp32 64"));
  EXPECT_THAT(OpsText(HeadBackwardOps({model, workload, plan}, true)),
              ElementsAre("cross_entropy_backward fp32 64x512", "matmul fp32 tn acc 512x128x64",
                          "matmul fp32 nn 64x128x512", "all_reduce_sum fp32 tensor/2 8192",
                          "layer_norm_backward fp32 acc 64x128"));
}

TEST_F(LayerOpsTest, WholeRowsComputeTheirGradientInTheForward) {
  plan.tp = 1;
  EXPECT_THAT(OpsText(HeadForwardOps({model, workload, plan})),
              ElementsAre("layer_norm_forward fp32 64x128", "matmul fp32 nt 64x1024x128",
                          "cross_entropy fp32 64x1024"));
  EXPECT_THAT(OpsText(HeadBackwardOps({model, workload, plan}, true)),
              ElementsAre("matmul fp32 tn acc 1024x128x64", "matmul fp32 nn 64x128x1024",
                          "layer_norm_backward fp32 acc 64x128"));
}

TEST_F(LayerOpsTest, NoTensorGroupNoReduction) {
  plan.tp = 1;
  for (const auto& ops :
       {LayerForwardOps({model, workload, plan}), LayerBackwardOps({model, workload, plan}, true),
        EmbeddingForwardOps({model, workload, plan}), HeadForwardOps({model, workload, plan}),
        HeadBackwardOps({model, workload, plan}, true)}) {
    for (const OpDesc& op : ops) EXPECT_FALSE(IsCommunication(op.kind)) << ToString(op);
  }
}

// One layer of this rank holds 99,520 elements: 2 norms 512, c_attn 128*192 + 192, c_proj 64*128 + 128, fc
// 128*256 + 256, proj 256*128 + 128.
TEST_F(LayerOpsTest, ParametersOfEachStage) {
  const std::int64_t layer = 512 + 128 * 192 + 192 + 64 * 128 + 128 + 128 * 256 + 256 + 256 * 128 + 128;
  const std::int64_t table = 512 * 128, positions = 64 * 128;
  EXPECT_THAT(Of(ActionKind::kZeroScalars, 0), ElementsAre("fill fp64 2"));
  EXPECT_THAT(Of(ActionKind::kReduceGradients, 0),
              ElementsAre("all_reduce_sum fp32 data/2 " + std::to_string(layer + table + positions)));
  EXPECT_THAT(Of(ActionKind::kReduceGradients, 1),
              ElementsAre("all_reduce_sum fp32 data/2 " + std::to_string(layer + table + 256)));
  EXPECT_THAT(Of(ActionKind::kSumTiedEmbedding, 0), ElementsAre("all_reduce_sum fp32 embedding/2 65536"));
  EXPECT_THAT(Of(ActionKind::kOptimizer, 0),
              ElementsAre("adamw fp32 " + std::to_string(layer + table + positions)));
  EXPECT_THAT(Of(ActionKind::kOptimizer, 1),
              ElementsAre("adamw fp32 " + std::to_string(layer + table + 256)));
  EXPECT_THAT(Of(ActionKind::kReduceScalars, 0),
              ElementsAre("sum_of_squares fp32 " + std::to_string(layer + table + positions),
                          "all_reduce_sum fp64 world/8 2"));
  // The last stage's copy of the table is counted in the first stage's norm.
  EXPECT_THAT(
      Of(ActionKind::kReduceScalars, 1),
      ElementsAre("sum_of_squares fp32 " + std::to_string(layer + 256), "all_reduce_sum fp64 world/8 2"));
}

// Epilogues for different model parts: gelu or relu with and without biases, gates with biases.
TEST_F(LayerOpsTest, EpiloguesFollowTheModel) {
  SetBiases(model, false);
  model.activation = Activation::kRelu;
  const std::vector<std::string> forward = OpsText(LayerForwardOps({model, workload, plan})),
                                 backward = OpsText(LayerBackwardOps({model, workload, plan}, true));
  EXPECT_EQ(forward[1], "matmul fp32 nn 64x192x128");
  EXPECT_EQ(forward[7], "matmul fp32 nn activation relu 64x256x128");
  EXPECT_EQ(backward[0], "matmul fp32 tn acc 256x128x64");
  EXPECT_EQ(backward[1], "matmul fp32 nt activation_gradient relu 64x256x128");
  SetBiases(model, true);
  model.activation = Activation::kGeGlu;
  const std::vector<std::string> gated = OpsText(LayerForwardOps({model, workload, plan})),
                                 back = OpsText(LayerBackwardOps({model, workload, plan}, true));
  EXPECT_EQ(gated[7], "matmul fp32 nn 64x512x128");
  EXPECT_EQ(gated[8], "activation_forward fp32 geglu bias 64x256");
  EXPECT_EQ(back[1], "matmul fp32 nt 64x256x128");
  EXPECT_EQ(back[2], "activation_backward fp32 geglu 64x256");
  EXPECT_EQ(back[3], "matmul fp32 tn acc bias_gradient 128x512x64");
}

TEST_F(LayerOpsTest, GradientRegionCountsItsPadding) {
  // Each parameter takes a multiple of 64 elements.
  model = SmallGpt(1, 25, 1, 100);
  plan = ParallelPlan();
  plan.dp = 2;
  const std::int64_t elements =
      ActionOps({model, workload, plan}, 0, Action{.kind = ActionKind::kReduceGradients}).front().dims[0];
  const auto padded = [](std::int64_t n) { return (n + 63) / 64 * 64; };
  EXPECT_EQ(elements, padded(128 * 25) + padded(64 * 25) + 6 * padded(25) + padded(25 * 75) + padded(75) +
                          padded(625) + padded(25 * 100) + padded(100) + padded(100 * 25) + 2 * padded(25));
}

TEST_F(LayerOpsTest, MessagesAndOpCounts) {
  EXPECT_THAT(Of(ActionKind::kSendActivation, 0), ElementsAre("send fp32 pipeline/2 8192"));
  EXPECT_THAT(Of(ActionKind::kRecvGradient, 0), ElementsAre("recv fp32 pipeline/2 8192"));
  model.layers = 4;
  EXPECT_EQ(Of(ActionKind::kForward, 0).size(), 3u + 2 * 11);
  EXPECT_EQ(Of(ActionKind::kForward, 1).size(), 2u * 11 + 7);
  EXPECT_EQ(Of(ActionKind::kBackward, 1).size(), 5u + 2 * 13);
  plan.recompute = Recompute::kFull;
  EXPECT_EQ(Of(ActionKind::kBackward, 0).size(), 2u * (13 + 8) + 2);
  plan.tp = plan.pp = plan.dp = 1;
  EXPECT_TRUE(Of(ActionKind::kReduceGradients, 0).empty());
  EXPECT_TRUE(Of(ActionKind::kSumTiedEmbedding, 0).empty());
  EXPECT_EQ(Of(ActionKind::kReduceScalars, 0).back().rfind("sum_of_squares fp32 ", 0), 0u);
}

// Llama's parts: T = 48, H = 96, N = 2, G = 1, D = 16, so A = 32 and Q = 64; F = 40, W = 80, V = 128.
class LlamaOpsTest : public LayerOpsTest {
 protected:
  LlamaOpsTest() {
    model = SmallGpt(7, 96, 4, 200);
    model.kv_heads = 2;
    model.head_dim = 16;
    model.ffn_hidden = 80;
    SetLlamaParts(model);
    workload = {.global_batch = 12, .seq_len = 16, .precision = *ParsePrecision("bf16")};
    plan = ParallelPlan();
    plan.tp = plan.pp = plan.virtual_stages = 2;
    plan.micro_batch = 3;
    plan.schedule = Schedule::kInterleaved;
    plan.split = SplitMode::kExplicit;
    plan.split_layers = {1, 2, 1, 3};
  }
};

TEST_F(LlamaOpsTest, Layer) {
  EXPECT_THAT(OpsText(LayerForwardOps({model, workload, plan})),
              ElementsAre("rms_norm_forward bf16 48x96", "matmul bf16 nn 48x64x96", "rope bf16 48x3x16x16",
                          "attention_forward bf16 3x16x2x16x1", "matmul bf16 nn 48x96x32",
                          "all_reduce_sum bf16 tensor/2 4608", "residual_add bf16 48x96",
                          "rms_norm_forward bf16 48x96", "matmul bf16 nn 48x80x96",
                          "activation_forward bf16 swiglu 48x40", "matmul bf16 nn 48x96x40",
                          "all_reduce_sum bf16 tensor/2 4608", "residual_add bf16 48x96"));
  EXPECT_THAT(OpsText(LayerBackwardOps({model, workload, plan}, true)),
              ElementsAre("matmul bf16 tn acc 40x96x48", "matmul bf16 nt 48x40x96",
                          "activation_backward bf16 swiglu 48x40", "matmul bf16 tn acc 96x80x48",
                          "matmul bf16 nt 48x96x80", "all_reduce_sum bf16 tensor/2 4608",
                          "rms_norm_backward bf16 acc 48x96", "matmul bf16 tn acc 32x96x48",
                          "matmul bf16 nt 48x32x96", "attention_backward bf16 3x16x2x16x1",
                          "rope bf16 48x3x16x16", "matmul bf16 tn acc 96x64x48", "matmul bf16 nt 48x96x64",
                          "all_reduce_sum bf16 tensor/2 4608", "rms_norm_backward bf16 acc 48x96"));
}

TEST_F(LlamaOpsTest, StagesAndParameters) {
  EXPECT_THAT(OpsText(EmbeddingForwardOps({model, workload, plan})),
              ElementsAre("embedding_forward bf16 48x96x128", "all_reduce_sum bf16 tensor/2 4608"));
  EXPECT_EQ(Of(ActionKind::kForward, 0).size(), 2u + 13);
  EXPECT_EQ(Of(ActionKind::kForward, 1).size(), 2u * 13);
  EXPECT_EQ(Of(ActionKind::kForward, 2).size(), 13u);
  EXPECT_EQ(Of(ActionKind::kForward, 3).size(), 3u * 13 + 7);
  plan.recompute = Recompute::kFull;
  plan.recompute_layers = 2;
  // Layers 2, 1, 0 of the last stage: the first two recompute.
  const std::vector<std::string> backward = Of(ActionKind::kBackward, 3);
  EXPECT_EQ(backward.size(), 5u + 3 * 15 + 2 * 10);
  EXPECT_EQ(backward[5], "matmul bf16 tn acc 40x96x48") << "the last layer does not recompute";
  EXPECT_EQ(backward[5 + 15], "rms_norm_forward bf16 48x96");
  EXPECT_EQ(Of(ActionKind::kBackward, 2).size(), 15u + 10);

  // Layers of both chunks, final norm and output layer; weights in bf16 with master copies, gradients in
  // fp32.
  const std::int64_t layer = 2 * 96 + 96 * 64 + 32 * 96 + 96 * 80 + 40 * 96, all = 5 * layer + 96 + 128 * 96;
  EXPECT_THAT(Of(ActionKind::kOptimizer, 3), ElementsAre("adamw bf16 master " + std::to_string(all)));
  EXPECT_EQ(Of(ActionKind::kReduceScalars, 3).front(), "sum_of_squares fp32 " + std::to_string(all));
  EXPECT_TRUE(Of(ActionKind::kSumTiedEmbedding, 3).empty());
  EXPECT_THROW(ActionOps({model, workload, plan}, 0, Action{.kind = ActionKind::kForward, .stage = 1}),
               std::logic_error);
  EXPECT_THROW(ActionOps({model, workload, plan}, 0, Action{.kind = ActionKind::kBackward}),
               std::logic_error);
}

TEST_F(LlamaOpsTest, PredictedOnly) {
  plan.attention = Attention::kUnfused;
  EXPECT_EQ(OpsText(LayerForwardOps({model, workload, plan}))[3],
            "unfused_attention_forward bf16 3x16x2x16x1");
  EXPECT_TRUE(LayerRecomputeOps({model, workload, plan}).empty());
  plan.recompute = Recompute::kSelective;
  EXPECT_THAT(OpsText(LayerRecomputeOps({model, workload, plan})),
              ElementsAre("unfused_attention_forward bf16 3x16x2x16x1"));
  const std::vector<std::string> backward = Of(ActionKind::kBackward, 2);
  EXPECT_EQ(backward.front(), "unfused_attention_forward bf16 3x16x2x16x1");
  EXPECT_EQ(backward.size(), 1u + 15);
  plan.scatter_gather = true;
  EXPECT_THAT(Of(ActionKind::kSendActivation, 0), ElementsAre("send bf16 pipeline/2 2304"));
  EXPECT_THAT(Of(ActionKind::kRecvGradient, 0), ElementsAre("recv bf16 pipeline/2 2304"));
  EXPECT_EQ(Of(ActionKind::kBackward, 0).front(), "all_gather bf16 tensor/2 4608");
  EXPECT_NE(Of(ActionKind::kForward, 0).front(), "all_gather bf16 tensor/2 4608") << "nothing arrives";
}

// Of six layers, the second, fourth and sixth do not rotate: the first and third of stage 1.
TEST_F(LlamaOpsTest, LayersWithoutRope) {
  const auto ropes = [&](std::int64_t stage, ActionKind kind) {
    const auto ops = Of(kind, stage);
    return std::count(ops.begin(), ops.end(), "rope bf16 48x3x16x16");
  };
  plan.virtual_stages = 1;
  plan.schedule = Schedule::kZeroBubbleH1;
  plan.split_layers = {3, 3};
  model.layers = 6;
  plan.recompute = Recompute::kFull;
  plan.recompute_layers = 1;
  EXPECT_EQ(ropes(0, ActionKind::kForward), 3);
  EXPECT_EQ(ropes(1, ActionKind::kInputGradient), 3 + 1);
  ASSERT_TRUE(ApplyPattern({.no_rope_layer_interval = 2}, model).ok());
  EXPECT_EQ(ropes(0, ActionKind::kForward), 2);
  EXPECT_EQ(ropes(1, ActionKind::kForward), 1);
  EXPECT_EQ(ropes(0, ActionKind::kInputGradient), 2 + 1);
  EXPECT_EQ(ropes(1, ActionKind::kInputGradient), 1) << "its first layer recomputes and does not rotate";
  EXPECT_EQ(ropes(1, ActionKind::kWeightGradient), 0);
}

// Each op of each rank occurs once in the plan's list.
TEST(PlanOps, CoverAllActions) {
  RandomRuns runs(53);
  for (int i = 0; i < 100; ++i) {
    const RandomRun run = runs.Next();
    std::set<OpDesc> all;
    const Program program = Lower(run);
    for (std::int64_t rank = 0; rank < run.plan.pp; ++rank) {
      for (const Action& action : program.ranks[static_cast<std::size_t>(rank * run.plan.tp * run.plan.dp)]) {
        if (IsMicrobatch(action.kind)) {
          const std::vector<OpDesc> ops = ActionOps(run, rank, action);
          all.insert(ops.begin(), ops.end());
          continue;
        }
        // Updates and norms depend on the coordinates.
        for (std::int64_t other = 0; other < run.plan.tp * run.plan.dp; ++other) {
          for (const RepeatedOp& repeated :
               RankOps(run, rank, action.kind, {other % run.plan.tp, other / run.plan.tp}))
            all.insert(repeated.op);
        }
      }
    }
    EXPECT_EQ(PlanOps(run), std::vector<OpDesc>(all.begin(), all.end())) << i;
    const test::SyntheticDevice device;
    const OpTimes times = device.Measure(PlanOps(run));
    for (const OpTime& time : PlanOpTimes(run, times)) {
      EXPECT_TRUE(all.contains(time.op));
      EXPECT_DOUBLE_EQ(time.seconds, device.Seconds(time.op));
    }
  }
}

TEST_F(LayerOpsTest, DoublePrecisionThroughout) {
  workload.precision = *ParsePrecision("fp64");
  for (int kind = 0; kind < static_cast<int>(kActionKinds); ++kind) {
    const Action action{.kind = static_cast<ActionKind>(kind), .stage = 0};
    for (const OpDesc& op : ActionOps({model, workload, plan}, 0, action))
      EXPECT_EQ(op.dtype, DType::kF64) << ToString(op);
  }
}

}  // namespace
}  // namespace autocfg
