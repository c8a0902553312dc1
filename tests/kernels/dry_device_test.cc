#include "kernels/dry/dry_device.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <set>

#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

Tensor Make(std::initializer_list<std::int64_t> shape, DType type = DType::kF64) {
  Tensor t;
  t.dtype = type;
  for (std::int64_t dim : shape) t.shape[static_cast<std::size_t>(t.rank++)] = dim;
  return t;
}

OpDesc Desc(OpKind kind, std::array<std::int64_t, 5> dims, DType type = DType::kF64) {
  OpDesc desc;
  desc.kind = kind;
  desc.dtype = type;
  desc.dims = dims;
  return desc;
}

TEST(DryOps, RecordsEveryOpInOrder) {
  OpLog log;
  const auto device = CreateDryDevice();
  const auto stream = device->CreateStream();
  const auto ops = CreateDryOps(log);
  Stream& s = *stream;
  const Tensor x = Make({6, 4}), w = Make({4}), t = Make({6}), ids = Make({6}, DType::kI32), one = Make({1});
  const Tensor qkv = Make({2, 3, 60}), out = Make({2, 3, 20}), lse = Make({2, 4, 3});
  const Tensor work = Make({AttentionWorkspaceElements(3, 5)}), logits = Make({6, 9}), sums = Make({2, 6});
  const Tensor half = Make({6, 2}), grouped = Make({2, 3, 40}), tokens3 = Make({2, 3, 4}),
               table = Make({9, 4}), square = Make({2, 4, 3, 3});
  ops->Matmul(Make({6, 5}), Transpose::kNo, Make({4, 5}), Transpose::kYes, x, true, s);
  ops->MatmulBias(Make({6, 5}), Make({5, 4}), w, x, s);
  ops->MatmulResidual(Make({6, 5}), Make({5, 4}), w, x, x, s);
  ops->MatmulResidual(Make({6, 5}), Make({5, 4}), {}, x, x, s);
  ops->MatmulActivation(Activation::kRelu, Make({6, 5}), Make({5, 4}), w, x, x, s);
  ops->MatmulActivation(Activation::kGelu, Make({6, 5}), Make({5, 4}), {}, x, x, s);
  ops->MatmulActivationBackward(Activation::kRelu, Make({6, 5}), Make({4, 5}), x, x, s);
  ops->MatmulBiasGradient(Make({6, 5}), x, Make({5, 4}), w, true, s);
  ops->LayerNormForward(x, w, w, 1e-5, x, t, t, s);
  ops->LayerNormBackward(x, x, w, t, t, x, true, w, w, false, s);
  ops->BiasResidual(x, w, x, s);
  ops->ActivationForward(Activation::kSwiGlu, x, {}, half, s);
  ops->ActivationForward(Activation::kGeGlu, x, w, half, s);
  ops->ActivationBackward(Activation::kGeGlu, x, half, x, s);
  ops->RmsNormForward(x, w, 1e-5, x, t, s);
  ops->RmsNormBackward(x, x, w, t, x, true, w, true, s);
  ops->ResidualAdd(x, x, s);
  const Tensor heads = Make({9, 40}), raw = Make({9, 30}), rstd = Make({9, 6}), of_head = Make({5}),
               of_rows = Make({9, 10});
  ops->HeadNormForward(heads, 4, 2, of_head, of_head, 1e-5, raw, rstd, s);
  ops->HeadNormBackward(heads, 4, 2, raw, of_head, of_head, rstd, of_head, of_head, true, s);
  const Tensor of_q = Make({20}), of_k = Make({10}), pairs = Make({9, 2});
  ops->QkSquares(heads, 4, 2, pairs, s);
  ops->QkNormForward(heads, 4, 2, 3, of_q, of_k, 1e-5, raw, pairs, s);
  ops->QkProducts(heads, 4, 2, raw, of_q, of_k, pairs, pairs, s);
  ops->QkNormBackward(heads, 4, 2, 3, raw, of_q, of_k, pairs, pairs, of_q, of_k, true, s);
  ops->Scale(x, 2, x, s);
  ops->TakeColumns(heads, 30, of_rows, s);
  ops->PutColumns(of_rows, heads, 0, s);
  ops->Rope(qkv, 2, 4, 2, {1e4}, false, s);
  ops->Rope(qkv, 4, 2, 2, {1e4}, true, s);
  ops->AttentionForward(qkv, {4, 4}, out, lse, work, s);
  ops->AttentionBackward(qkv, {4, 4}, out, lse, out, qkv, work, s);
  ops->AttentionForward(grouped, {4, 2}, out, lse, work, s);
  ops->AttentionForward(qkv, {4, 4, 0.5, 8, 4}, out, lse, work, s);
  ops->AttentionForward(qkv, {.heads = 4, .kv_heads = 4, .softcap = 50, .window = 2}, out, lse, work, s);
  ops->AttentionForward(qkv, {.heads = 4, .kv_heads = 4, .window = 3}, out, lse, work, s);
  ops->UnfusedAttentionForward(grouped, {4, 2}, square, out, s);
  ops->UnfusedAttentionBackward(qkv, {4, 4}, square, out, out, qkv, square, s);
  ops->EmbeddingForward(ids, table, 0, x, s);
  ops->EmbeddingBackward(ids, x, 0, table, true, s);
  ops->PositionForward(tokens3.Reshape({6, 4}), 3, 0, table, s);
  ops->PositionBackward(tokens3, table, false, s);
  ops->CrossEntropy(logits, {7}, ids, 1, one, s);
  ops->CrossEntropyForward(logits, {7}, ids, 0, t, sums, s);
  ops->CrossEntropyForward(logits, {7, 30}, ids, 0, t, sums, s);
  ops->CrossEntropyRescale(t, sums, s);
  ops->CrossEntropyLoss(t, sums, one, s);
  ops->CrossEntropyBackward(logits, {7}, sums, ids, 0, 1, s);
  ops->Fill(qkv, 0, s);
  ops->SumOfSquares(std::array{Make({7}, DType::kF32), Make({2, 4}, DType::kF32)}, one, s);
  ops->SumOfSquares({}, one, s);  // an empty list is no op
  ops->AdamW(std::array{UpdatedTensor{table, table, {}, table, table, 0.1}, UpdatedTensor{w, w, {}, w, w}},
             {}, s);
  ops->AdamW(std::array{UpdatedTensor{table, table, table, table, table}}, {}, s);
  ops->AdamW({}, {}, s);
  ops->Sgd(std::array{UpdatedTensor{w, w, {}, w}}, {}, s);

  OpDesc matmul = Desc(OpKind::kMatmul, {6, 4, 5, 0});
  matmul.transpose_b = true;
  matmul.accumulate = true;
  const auto product = [](Epilogue epilogue, std::array<std::int64_t, 5> dims) {
    OpDesc desc = Desc(OpKind::kMatmul, dims);
    SetEpilogue(desc, epilogue);
    return desc;
  };
  OpDesc relu = product(Epilogue::kActivation, {6, 4, 5}),
         relu_backward = product(Epilogue::kActivationGradient, {6, 4, 5});
  relu.activation = relu_backward.activation = Activation::kRelu;
  relu.bias = true;
  OpDesc residual = product(Epilogue::kResidual, {6, 4, 5});
  residual.bias = true;
  OpDesc geglu = Desc(OpKind::kActivationForward, {6, 2});
  geglu.bias = true;
  geglu.activation = Activation::kGeGlu;
  OpDesc swiglu = Desc(OpKind::kActivationForward, {6, 2}),
         geglu_backward = Desc(OpKind::kActivationBackward, {6, 2});
  swiglu.activation = Activation::kSwiGlu;
  geglu_backward.activation = Activation::kGeGlu;
  const auto adding = [](OpDesc desc) {
    desc.accumulate = true;
    return desc;
  };
  OpDesc alibi = Desc(OpKind::kAttentionForward, {2, 3, 4, 5, 4});
  alibi.alibi = true;
  OpDesc windowed = Desc(OpKind::kAttentionForward, {2, 3, 4, 5, 4});
  windowed.window = 2;  // 3 is the whole sequence
  windowed.softcap = true;
  OpDesc capped = Desc(OpKind::kCrossEntropyForward, {6, 9});
  capped.softcap = true;
  OpDesc update = Desc(OpKind::kAdamW, {40});
  update.moments = update.dtype;
  OpDesc master = Desc(OpKind::kAdamW, {36});
  master.moments = master.master = master.dtype;
  OpDesc sgd = Desc(OpKind::kSgd, {4});
  sgd.moments = sgd.dtype;
  EXPECT_THAT(
      log.ops(),
      testing::ElementsAre(
          matmul, product(Epilogue::kBias, {6, 4, 5}), residual, product(Epilogue::kResidual, {6, 4, 5}),
          relu, product(Epilogue::kActivation, {6, 4, 5}), relu_backward,
          adding(product(Epilogue::kBiasGradient, {5, 4, 6})), Desc(OpKind::kLayerNormForward, {6, 4, 0, 0}),
          Desc(OpKind::kLayerNormBackward, {6, 4, 0, 0}), Desc(OpKind::kBiasResidual, {6, 4, 0, 0}), swiglu,
          geglu, geglu_backward, Desc(OpKind::kRmsNormForward, {6, 4}),
          adding(Desc(OpKind::kRmsNormBackward, {6, 4})), Desc(OpKind::kResidualAdd, {6, 4}),
          Desc(OpKind::kHeadNormForward, {9, 4, 5, 2}), adding(Desc(OpKind::kHeadNormBackward, {9, 4, 5, 2})),
          Desc(OpKind::kQkSquares, {9, 4, 5, 2}), Desc(OpKind::kQkNormForward, {9, 4, 5, 2}),
          Desc(OpKind::kQkProducts, {9, 4, 5, 2}), adding(Desc(OpKind::kQkNormBackward, {9, 4, 5, 2})),
          Desc(OpKind::kScale, {6, 4}), Desc(OpKind::kCopyColumns, {9, 10}),
          Desc(OpKind::kCopyColumns, {9, 10}), Desc(OpKind::kRope, {6, 2, 4, 2}),
          Desc(OpKind::kRope, {6, 4, 2, 2}), Desc(OpKind::kAttentionForward, {2, 3, 4, 5, 4}),
          Desc(OpKind::kAttentionBackward, {2, 3, 4, 5, 4}), Desc(OpKind::kAttentionForward, {2, 3, 4, 5, 2}),
          alibi, windowed, Desc(OpKind::kAttentionForward, {2, 3, 4, 5, 4}),
          Desc(OpKind::kUnfusedAttentionForward, {2, 3, 4, 5, 2}),
          Desc(OpKind::kUnfusedAttentionBackward, {2, 3, 4, 5, 4}),
          Desc(OpKind::kEmbeddingForward, {6, 4, 9, 0}),
          adding(Desc(OpKind::kEmbeddingBackward, {6, 4, 9, 0})),
          Desc(OpKind::kPositionForward, {6, 4, 0, 0}), Desc(OpKind::kPositionBackward, {6, 4, 0, 0}),
          Desc(OpKind::kCrossEntropy, {6, 9}), Desc(OpKind::kCrossEntropyForward, {6, 9}), capped,
          Desc(OpKind::kCrossEntropyRescale, {6}), Desc(OpKind::kCrossEntropyLoss, {6, 0, 0, 0}),
          Desc(OpKind::kCrossEntropyBackward, {6, 9, 0, 0}), Desc(OpKind::kFill, {360}),
          Desc(OpKind::kSumOfSquares, {15, 0, 0, 0}, DType::kF32), update, master, sgd));
  std::set<OpKind> kinds;
  for (const OpDesc& op : log.ops()) kinds.insert(op.kind);
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (IsCommunication(kind)) continue;
    EXPECT_TRUE(kinds.contains(kind)) << Name(kind);
  }
  log.Clear();
  EXPECT_TRUE(log.ops().empty());
}

TEST(DryOps, DoesNotRecordRejectedOps) {
  OpLog log;
  const auto device = CreateDryDevice();
  const auto stream = device->CreateStream();
  EXPECT_THROW(CreateDryOps(log)->ResidualAdd(Make({2, 3}), Make({2, 2}), *stream), std::invalid_argument);
  EXPECT_TRUE(log.ops().empty());
}

// bf16 compute with fp32 statistics and gradients; so far only the dry device runs these types.
TEST(DryOps, AcceptsMixedPrecision) {
  OpLog log;
  const auto device = CreateDryDevice();
  const auto stream = device->CreateStream();
  const auto ops = CreateDryOps(log);
  const auto half = [](std::initializer_list<std::int64_t> shape) { return Make(shape, DType::kBF16); };
  const Tensor weight_gradient = Make({3, 4}, DType::kF32), statistic = Make({6}, DType::kF32);
  ops->Matmul(half({6, 3}), Transpose::kYes, half({6, 4}), Transpose::kNo, weight_gradient, true, *stream);
  ops->LayerNormForward(half({6, 4}), half({4}), half({4}), 1e-5, half({6, 4}), statistic, statistic,
                        *stream);
  ASSERT_EQ(log.ops().size(), 2u);
  EXPECT_EQ(log.ops()[0].dtype, DType::kBF16);
  ops->MatmulBiasGradient(half({6, 3}), half({6, 4}), weight_gradient, Make({4}, DType::kF32), true, *stream);
  EXPECT_EQ(log.ops().back().dtype, DType::kBF16);
  EXPECT_THROW(ops->MatmulBiasGradient(half({6, 3}), half({6, 4}), weight_gradient, half({4}), true, *stream),
               std::invalid_argument)
      << "gradients of two types";
  ops->RmsNormForward(half({6, 4}), half({4}), 1e-5, half({6, 4}), statistic, *stream);
  ops->RmsNormBackward(half({6, 4}), half({6, 4}), half({4}), statistic, half({6, 4}), true,
                       Make({4}, DType::kF32), true, *stream);
  ops->ActivationForward(Activation::kSwiGlu, half({6, 4}), {}, half({6, 2}), *stream);
  ops->Rope(half({2, 3, 8}), 2, 4, 4, {1e4}, false, *stream);
  ops->AttentionForward(half({2, 3, 8}), {2, 1}, half({2, 3, 4}), Make({2, 2, 3}, DType::kF32),
                        Make({AttentionWorkspaceElements(3, 2)}, DType::kF32), *stream);
  ops->UnfusedAttentionForward(half({2, 3, 8}), {2, 1}, half({2, 2, 3, 3}), half({2, 3, 4}), *stream);
  EXPECT_THROW(ops->UnfusedAttentionForward(half({2, 3, 8}), {2, 1}, Make({2, 2, 3, 3}, DType::kF32),
                                            half({2, 3, 4}), *stream),
               std::invalid_argument)
      << "probabilities in another type";
  const Tensor& g = weight_gradient;
  ops->AdamW(std::array{UpdatedTensor{half({3, 4}), g, g, g, g}}, {}, *stream);
  ASSERT_EQ(log.ops().size(), 10u);
  EXPECT_EQ(log.ops().back().moments, DType::kF32);
  EXPECT_EQ(log.ops().back().master, DType::kF32);
  EXPECT_EQ(log.ops().back().dtype, DType::kBF16);
  EXPECT_THROW(ops->RmsNormForward(half({6, 4}), half({4}), 1e-5, half({6, 4}), half({6}), *stream),
               std::invalid_argument);
  ops->AdamW(std::array{UpdatedTensor{half({3, 4}), half({3, 4}), half({3, 4}), half({3, 4}), half({3, 4})}},
             {}, *stream);
  EXPECT_EQ(log.ops().back().gradients, DType::kBF16);
  EXPECT_EQ(log.ops().back().moments, DType::kBF16);
  EXPECT_EQ(log.ops().back().master, DType::kBF16);
  ops->Sgd(std::array{UpdatedTensor{half({3, 4}), g}}, {}, *stream);
  EXPECT_EQ(log.ops().back(), (OpDesc{.kind = OpKind::kSgd, .dtype = DType::kBF16, .dims = {12}}));
  EXPECT_THROW(ops->AdamW(std::array{UpdatedTensor{half({3, 4}), g, g, g, half({3, 4})}}, {}, *stream),
               std::invalid_argument)
      << "moments of two types";
  EXPECT_THROW(ops->LayerNormForward(half({6, 4}), half({4}), half({4}), 1e-5, half({6, 4}), half({6}),
                                     half({6}), *stream),
               std::invalid_argument);
}

TEST(DryDevice, CountsMoreThanAnyMachineHas) {
  const auto device = CreateDryDevice();
  const std::int64_t petabyte = std::int64_t{1} << 50;
  EXPECT_EQ(device->Allocate(petabyte), nullptr);
  EXPECT_EQ(device->OverheadBytes(petabyte), 0);
  EXPECT_EQ(device->Allocate(100), nullptr);
  EXPECT_EQ(device->OverheadBytes(petabyte), 100);
  device->Free(nullptr, petabyte);
  EXPECT_EQ(device->OverheadBytes(0), 100);
}

}  // namespace
}  // namespace autocfg
