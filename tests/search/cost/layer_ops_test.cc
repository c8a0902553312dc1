#include "search/cost/layer_ops.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;
using testing::Fp32;
using testing::SmallGpt;

std::vector<std::string> Text(const std::vector<OpDesc>& ops) {
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
    return Text(ActionOps(model, workload, plan, stage, Action{.kind = kind, .after = {}}));
  }
  ModelSpec model = SmallGpt(2, 128, 8, 1000);
  Workload workload = Fp32(8, 32);
  ParallelPlan plan;
};

TEST_F(LayerOpsTest, LayerForward) {
  EXPECT_THAT(Text(LayerForwardOps(model, workload, plan)),
              ElementsAre("layer_norm_forward fp32 64x128", "matmul fp32 nn 64x192x128",
                          "bias_add fp32 64x192", "attention_forward fp32 2x32x4x16",
                          "matmul fp32 nn 64x128x64", "all_reduce_sum fp32 tensor/2 8192",
                          "bias_residual fp32 64x128", "layer_norm_forward fp32 64x128",
                          "matmul fp32 nn 64x256x128", "activation_forward fp32 gelu bias 64x256", "matmul fp32 nn 64x128x256",
                          "all_reduce_sum fp32 tensor/2 8192", "bias_residual fp32 64x128"));
}

TEST_F(LayerOpsTest, LayerBackward) {
  EXPECT_THAT(
      Text(LayerBackwardOps(model, workload, plan)),
      ElementsAre("bias_gradient fp32 64x128", "matmul fp32 tn acc 256x128x64", "matmul fp32 nt 64x256x128",
                  "activation_backward fp32 gelu 64x256", "bias_gradient fp32 64x256", "matmul fp32 tn acc 128x256x64",
                  "matmul fp32 nt 64x128x256", "all_reduce_sum fp32 tensor/2 8192",
                  "layer_norm_backward fp32 64x128", "bias_gradient fp32 64x128",
                  "matmul fp32 tn acc 64x128x64", "matmul fp32 nt 64x64x128",
                  "attention_backward fp32 2x32x4x16", "bias_gradient fp32 64x192",
                  "matmul fp32 tn acc 128x192x64", "matmul fp32 nt 64x128x192",
                  "all_reduce_sum fp32 tensor/2 8192", "layer_norm_backward fp32 64x128"));
}

TEST_F(LayerOpsTest, RecomputationRunsTheForwardWithoutItsLastThreeOps) {
  EXPECT_TRUE(LayerRecomputeOps(model, workload, plan).empty());
  plan.recompute = Recompute::kFull;
  std::vector<OpDesc> forward = LayerForwardOps(model, workload, plan);
  forward.resize(forward.size() - 3);
  EXPECT_EQ(LayerRecomputeOps(model, workload, plan), forward);
}

TEST_F(LayerOpsTest, EmbeddingAndHead) {
  EXPECT_THAT(Text(EmbeddingForwardOps(model, workload, plan)),
              ElementsAre("embedding_forward fp32 64x128x512", "all_reduce_sum fp32 tensor/2 8192",
                          "position_forward fp32 64x128"));
  EXPECT_THAT(Text(EmbeddingBackwardOps(model, workload, plan)),
              ElementsAre("position_backward fp32 64x128", "embedding_backward fp32 64x128x512"));
  EXPECT_THAT(Text(HeadForwardOps(model, workload, plan)),
              ElementsAre("layer_norm_forward fp32 64x128", "matmul fp32 nt 64x512x128",
                          "cross_entropy_max fp32 64x512", "all_reduce_max fp32 tensor/2 64",
                          "cross_entropy_sum fp32 64x512", "all_reduce_sum fp32 tensor/2 128",
                          "cross_entropy_loss fp32 64"));
  EXPECT_THAT(Text(HeadBackwardOps(model, workload, plan)),
              ElementsAre("cross_entropy_backward fp32 64x512", "matmul fp32 nn 64x128x512",
                          "matmul fp32 tn acc 512x128x64", "all_reduce_sum fp32 tensor/2 8192",
                          "layer_norm_backward fp32 64x128"));
}

TEST_F(LayerOpsTest, NoTensorGroupNoReduction) {
  plan.tp = 1;
  for (const auto& ops : {LayerForwardOps(model, workload, plan), LayerBackwardOps(model, workload, plan),
                          EmbeddingForwardOps(model, workload, plan), HeadForwardOps(model, workload, plan),
                          HeadBackwardOps(model, workload, plan)}) {
    for (const OpDesc& op : ops) EXPECT_FALSE(IsCommunication(op.kind)) << ToString(op);
  }
}

// One layer of this rank holds 99,520 elements: 2 norms 512, c_attn 128*192 + 192, c_proj 64*128 + 128, fc
// 128*256 + 256, proj 256*128 + 128.
TEST_F(LayerOpsTest, ParametersOfEachStage) {
  const std::int64_t layer = 512 + 128 * 192 + 192 + 64 * 128 + 128 + 128 * 256 + 256 + 256 * 128 + 128;
  const std::int64_t table = 512 * 128, positions = 64 * 128;
  EXPECT_THAT(Of(ActionKind::kZeroGradients, 0),
              ElementsAre("fill fp32 " + std::to_string(layer + table + positions), "fill fp64 2"));
  EXPECT_THAT(Of(ActionKind::kZeroGradients, 1),
              ElementsAre("fill fp32 " + std::to_string(layer + table + 256), "fill fp64 2"));
  EXPECT_THAT(Of(ActionKind::kReduceGradients, 1),
              ElementsAre("all_reduce_sum fp32 data/2 " + std::to_string(layer + table + 256)));
  EXPECT_THAT(Of(ActionKind::kSumTiedEmbedding, 0), ElementsAre("all_reduce_sum fp32 embedding/2 65536"));
  EXPECT_THAT(Of(ActionKind::kOptimizer, 1),
              ElementsAre("adamw fp32 65536", "adamw fp32 128", "adamw fp32 128", "adamw fp32 24576",
                          "adamw fp32 192", "adamw fp32 8192", "adamw fp32 128", "adamw fp32 128",
                          "adamw fp32 128", "adamw fp32 32768", "adamw fp32 256", "adamw fp32 32768",
                          "adamw fp32 128", "adamw fp32 128", "adamw fp32 128"));
  // The last stage's copy of the table counts in the first stage's norm.
  EXPECT_THAT(
      Of(ActionKind::kReduceScalars, 1),
      ElementsAre("sum_of_squares fp32 128", "sum_of_squares fp32 128", "sum_of_squares fp32 24576",
                  "sum_of_squares fp32 192", "sum_of_squares fp32 8192", "sum_of_squares fp32 128",
                  "sum_of_squares fp32 128", "sum_of_squares fp32 128", "sum_of_squares fp32 32768",
                  "sum_of_squares fp32 256", "sum_of_squares fp32 32768", "sum_of_squares fp32 128",
                  "sum_of_squares fp32 128", "sum_of_squares fp32 128", "all_reduce_sum fp64 world/8 2"));
  EXPECT_EQ(Of(ActionKind::kReduceScalars, 0).front(), "sum_of_squares fp32 65536");
}

TEST_F(LayerOpsTest, GradientRegionCountsItsPadding) {
  // Tensors of 4 * 25 = 100 bytes take 128.
  model = SmallGpt(1, 25, 1, 100);
  plan = ParallelPlan();
  const std::int64_t elements =
      ActionOps(model, workload, plan, 0, Action{.kind = ActionKind::kZeroGradients, .after = {}})
          .front()
          .dims[0];
  const auto padded = [](std::int64_t n) { return (n + 15) / 16 * 16; };
  EXPECT_EQ(elements, padded(128 * 25) + padded(64 * 25) + 6 * padded(25) + padded(25 * 75) + padded(75) +
                          padded(625) + padded(25 * 100) + padded(100) + padded(100 * 25) + 2 * padded(25));
}

TEST_F(LayerOpsTest, MessagesAndWhole) {
  EXPECT_THAT(Of(ActionKind::kSendActivation, 0), ElementsAre("send fp32 pipeline/2 8192"));
  EXPECT_THAT(Of(ActionKind::kRecvGradient, 0), ElementsAre("recv fp32 pipeline/2 8192"));
  model.layers = 4;
  EXPECT_EQ(Of(ActionKind::kForward, 0).size(), 3u + 2 * 13);
  EXPECT_EQ(Of(ActionKind::kForward, 1).size(), 2u * 13 + 7);
  EXPECT_EQ(Of(ActionKind::kBackward, 1).size(), 5u + 2 * 18);
  plan.recompute = Recompute::kFull;
  EXPECT_EQ(Of(ActionKind::kBackward, 0).size(), 2u * (18 + 10) + 2);
  plan.tp = plan.pp = plan.dp = 1;
  EXPECT_TRUE(Of(ActionKind::kReduceGradients, 0).empty());
  EXPECT_TRUE(Of(ActionKind::kSumTiedEmbedding, 0).empty());
  EXPECT_EQ(Of(ActionKind::kReduceScalars, 0).back(), "sum_of_squares fp32 128");
}

TEST_F(LayerOpsTest, DoublePrecisionThroughout) {
  workload.precision = *ParsePrecision("fp64");
  for (int kind = 0; kind <= static_cast<int>(ActionKind::kOptimizer); ++kind) {
    const Action action{.kind = static_cast<ActionKind>(kind), .after = {}};
    for (const OpDesc& op : ActionOps(model, workload, plan, 0, action))
      EXPECT_EQ(op.dtype, DType::kF64) << ToString(op);
  }
}

}  // namespace
}  // namespace autocfg
