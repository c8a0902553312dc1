// Tests op names and their parsing, the text of an op, its FLOPs and bytes, and its hash.
#include "search/ops/op_desc.h"

#include <iterator>
#include <set>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace autocfg {
namespace {

OpDesc Op(OpKind kind, std::array<std::int64_t, 5> dims) {
  OpDesc op;
  op.kind = kind;
  op.dims = dims;
  return op;
}

TEST(OpDesc, NamesRoundTrip) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOpKindCount; ++i) {
    const OpKind kind = static_cast<OpKind>(i);
    EXPECT_EQ(ParseOpKind(Name(kind)), kind);
    EXPECT_TRUE(names.insert(Name(kind)).second) << Name(kind);
    EXPECT_GE(DimCount(kind), 1);
    EXPECT_LE(DimCount(kind), 5);
  }
  EXPECT_EQ(Name(OpKind::kMatmul), "matmul");
  EXPECT_EQ(Name(OpKind::kLayerNormForward), "layer_norm_forward");
  EXPECT_EQ(Name(OpKind::kRmsNormBackward), "rms_norm_backward");
  EXPECT_EQ(Name(OpKind::kResidualAdd), "residual_add");
  EXPECT_EQ(Name(OpKind::kScale), "scale");
  EXPECT_EQ(Name(OpKind::kActivationForward), "activation_forward");
  EXPECT_EQ(Name(OpKind::kHeadNormForward), "head_norm_forward");
  EXPECT_EQ(Name(OpKind::kHeadNormBackward), "head_norm_backward");
  EXPECT_EQ(Name(OpKind::kQkSquares), "qk_squares");
  EXPECT_EQ(Name(OpKind::kQkNormBackward), "qk_norm_backward");
  EXPECT_EQ(Name(OpKind::kRope), "rope");
  EXPECT_EQ(Name(OpKind::kUnfusedAttentionBackward), "unfused_attention_backward");
  EXPECT_EQ(Name(OpKind::kCrossEntropyBackward), "cross_entropy_backward");
  EXPECT_EQ(Name(OpKind::kAdamW), "adamw");
  EXPECT_EQ(Name(OpKind::kAllReduceMax), "all_reduce_max");
  EXPECT_EQ(Name(OpKind::kRecv), "recv");
  EXPECT_EQ(Name(OpKind::kReduceScatter), "reduce_scatter");
  EXPECT_EQ(Name(OpKind::kAllGather), "all_gather");
  EXPECT_FALSE(ParseOpKind("gemm"));
  for (const CommGroup group : {CommGroup::kNone, CommGroup::kTensor, CommGroup::kData, CommGroup::kPipeline,
                                CommGroup::kEmbedding, CommGroup::kWorld}) {
    EXPECT_EQ(ParseCommGroup(Name(group)), group);
  }
  EXPECT_FALSE(ParseCommGroup("expert"));
  for (const DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI32}) {
    EXPECT_EQ(ParseDType(Name(type)), type);
  }
  EXPECT_FALSE(ParseDType("fp8"));
  for (int i = 0; i < kEpilogueCount; ++i)
    EXPECT_EQ(ParseEpilogue(Name(static_cast<Epilogue>(i))), static_cast<Epilogue>(i));
  EXPECT_EQ(Name(Epilogue::kActivationGradient), "activation_gradient");
  EXPECT_FALSE(ParseEpilogue("relu"));
}

OpDesc Product(Epilogue epilogue, std::array<std::int64_t, 5> dims, Activation activation = Activation::kGelu,
               bool bias = false) {
  OpDesc op = Op(OpKind::kMatmul, dims);
  SetEpilogue(op, epilogue);
  op.activation = activation;
  op.bias = bias;
  return op;
}

TEST(OpDesc, EachEpilogueHasOneForm) {
  OpDesc plain = Op(OpKind::kMatmul, {2, 3, 4});
  plain.transpose_a = plain.transpose_b = plain.accumulate = true;
  OpDesc same = plain;
  SetEpilogue(same, Epilogue::kNone);
  EXPECT_EQ(same, plain);
  const auto form = [&](Epilogue epilogue) {
    OpDesc op = plain;
    SetEpilogue(op, epilogue);
    EXPECT_EQ(op.epilogue, epilogue);
    return std::array{op.transpose_a, op.transpose_b, op.accumulate};
  };
  EXPECT_EQ(form(Epilogue::kBias), (std::array{false, false, false}));
  EXPECT_EQ(form(Epilogue::kActivation), (std::array{false, false, false}));
  EXPECT_EQ(form(Epilogue::kActivationGradient), (std::array{false, true, false}));
  EXPECT_EQ(form(Epilogue::kBiasGradient), (std::array{true, false, true}));
  EXPECT_EQ(form(Epilogue::kResidual), (std::array{false, false, false}));
}

TEST(OpDesc, Communication) {
  EXPECT_TRUE(IsCommunication(OpKind::kAllReduceSum));
  EXPECT_TRUE(IsCommunication(OpKind::kAllReduceMax));
  EXPECT_TRUE(IsCommunication(OpKind::kSend));
  EXPECT_TRUE(IsCommunication(OpKind::kRecv));
  EXPECT_TRUE(IsCommunication(OpKind::kReduceScatter));
  EXPECT_TRUE(IsCommunication(OpKind::kAllGather));
  int compute = 0;
  for (int i = 0; i < kOpKindCount; ++i) compute += !IsCommunication(static_cast<OpKind>(i));
  EXPECT_EQ(compute, kOpKindCount - 6);
}

TEST(OpDesc, CommunicationHasAPatternAndComputeHasNone) {
  EXPECT_EQ(PatternOf(OpKind::kAllReduceSum), CommPattern::kAllReduce);
  EXPECT_EQ(PatternOf(OpKind::kAllReduceMax), CommPattern::kAllReduce);
  EXPECT_EQ(PatternOf(OpKind::kReduceScatter), CommPattern::kReduceScatter);
  EXPECT_EQ(PatternOf(OpKind::kAllGather), CommPattern::kAllGather);
  EXPECT_EQ(PatternOf(OpKind::kSend), CommPattern::kMessage);
  EXPECT_EQ(PatternOf(OpKind::kRecv), CommPattern::kMessage);
  for (int i = 0; i < kOpKindCount; ++i) {
    const OpKind kind = static_cast<OpKind>(i);
    EXPECT_EQ(IsCommunication(kind), PatternOf(kind) != CommPattern::kNone) << Name(kind);
  }
}

TEST(OpDesc, Line) {
  OpDesc matmul = Op(OpKind::kMatmul, {512, 768, 3072, 0});
  matmul.transpose_b = true;
  matmul.accumulate = true;
  EXPECT_EQ(ToString(matmul), "matmul fp32 nt acc 512x768x3072");
  EXPECT_EQ(ToString(Product(Epilogue::kBias, {4, 5, 6})), "matmul fp32 nn bias 4x5x6");
  EXPECT_EQ(ToString(Product(Epilogue::kActivation, {4, 5, 6}, Activation::kRelu)),
            "matmul fp32 nn activation relu 4x5x6");
  EXPECT_EQ(ToString(Product(Epilogue::kActivation, {4, 5, 6}, Activation::kGelu, true)),
            "matmul fp32 nn activation gelu bias 4x5x6");
  EXPECT_EQ(ToString(Product(Epilogue::kActivationGradient, {4, 5, 6}, Activation::kGeluErf)),
            "matmul fp32 nt activation_gradient gelu_erf 4x5x6");
  OpDesc gradient = Product(Epilogue::kBiasGradient, {4, 5, 6});
  EXPECT_EQ(ToString(gradient), "matmul fp32 tn bias_gradient 4x5x6");
  gradient.accumulate = true;
  EXPECT_EQ(ToString(gradient), "matmul fp32 tn acc bias_gradient 4x5x6");
  OpDesc norm = Op(OpKind::kRmsNormBackward, {64, 128});
  norm.accumulate = true;
  EXPECT_EQ(ToString(norm), "rms_norm_backward fp32 acc 64x128");
  EXPECT_EQ(ToString(Product(Epilogue::kResidual, {4, 5, 6})), "matmul fp32 nn residual 4x5x6");
  EXPECT_EQ(ToString(Product(Epilogue::kResidual, {4, 5, 6}, Activation::kGelu, true)),
            "matmul fp32 nn residual bias 4x5x6");
  OpDesc reduce = Op(OpKind::kAllReduceSum, {65536});
  reduce.group = CommGroup::kTensor;
  reduce.group_size = 4;
  EXPECT_EQ(ToString(reduce), "all_reduce_sum fp32 tensor/4 65536");
  EXPECT_EQ(ToString(Op(OpKind::kAttentionForward, {2, 64, 4, 32, 1})), "attention_forward fp32 2x64x4x32x1");
  OpDesc alibi = Op(OpKind::kUnfusedAttentionBackward, {2, 64, 4, 32, 1});
  alibi.alibi = true;
  EXPECT_EQ(ToString(alibi), "unfused_attention_backward fp32 alibi 2x64x4x32x1");
  OpDesc window = Op(OpKind::kAttentionForward, {2, 64, 4, 32, 1});
  const double full = Flops(window);
  window.window = 8;
  EXPECT_EQ(ToString(window), "attention_forward fp32 window=8 2x64x4x32x1");
  EXPECT_DOUBLE_EQ(Flops(window), full * (8.0 * 9 / 2 + 56 * 8) / (64.0 * 65 / 2))
      << "full rather than causal, as without a window";
  window.softcap = true;
  EXPECT_EQ(ToString(window), "attention_forward fp32 window=8 softcap 2x64x4x32x1");
  OpDesc unfused = Op(OpKind::kUnfusedAttentionForward, {2, 64, 4, 32, 1});
  unfused.window = 8;
  EXPECT_EQ(Flops(unfused), full) << "it stores all scores";
  EXPECT_EQ(ToString(Op(OpKind::kRope, {512, 5, 32, 16})), "rope fp32 512x5x32x16");
  OpDesc activation = Op(OpKind::kActivationForward, {512, 3072});
  activation.activation = Activation::kSwiGlu;
  EXPECT_EQ(ToString(activation), "activation_forward fp32 swiglu 512x3072");
  activation.activation = Activation::kGeGlu;
  activation.bias = true;
  EXPECT_EQ(ToString(activation), "activation_forward fp32 geglu bias 512x3072");
  OpDesc update = Op(OpKind::kAdamW, {1000});
  update.dtype = DType::kBF16;
  update.moments = update.master = DType::kF32;
  EXPECT_EQ(ToString(update), "adamw bf16 master 1000");
  update.gradients = update.moments = update.master = DType::kBF16;
  EXPECT_EQ(ToString(update), "adamw bf16 grads=bf16 moments=bf16 master=bf16 1000");
  OpDesc plain = Op(OpKind::kSgd, {1000});
  EXPECT_EQ(ToString(plain), "sgd fp32 1000");
  plain.moments = DType::kF32;
  EXPECT_EQ(ToString(plain), "sgd fp32 moments=fp32 1000");
}

TEST(OpDesc, Flops) {
  EXPECT_EQ(Flops(Op(OpKind::kMatmul, {2, 3, 5, 0})), 60);
  EXPECT_EQ(Flops(Product(Epilogue::kActivation, {2, 3, 5}, Activation::kGelu, true)), 60);
  EXPECT_EQ(Flops(Op(OpKind::kAttentionForward, {2, 8, 3, 4, 3})), 4 * 2 * 3 * 64 * 4);
  EXPECT_EQ(Flops(Op(OpKind::kAttentionBackward, {2, 8, 3, 4, 3})), 10 * 2 * 3 * 64 * 4);
  // Unfused attention keeps the scores: two products forward, four backward, no recomputation.
  EXPECT_EQ(Flops(Op(OpKind::kUnfusedAttentionForward, {2, 8, 3, 4, 3})), 4 * 2 * 3 * 64 * 4);
  EXPECT_EQ(Flops(Op(OpKind::kUnfusedAttentionBackward, {2, 8, 3, 4, 3})), 8 * 2 * 3 * 64 * 4);
  EXPECT_EQ(Flops(Op(OpKind::kAttentionForward, {2, 8, 3, 4, 1})), 4 * 2 * 3 * 64 * 4)
      << "key-value heads change bytes only";
  std::set<OpKind> counted;
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (Flops(Op(kind, {2, 3, 4, 5, 6})) > 0) counted.insert(kind);
  }
  EXPECT_EQ(counted, (std::set<OpKind>{OpKind::kMatmul, OpKind::kAttentionForward, OpKind::kAttentionBackward,
                                       OpKind::kUnfusedAttentionForward, OpKind::kUnfusedAttentionBackward}));
  // No overflow at sizes that overflow int64.
  EXPECT_DOUBLE_EQ(Flops(Op(OpKind::kMatmul, {10'000'000, 10'000'000, 10'000'000, 0})), 2e21);
}

TEST(OpDesc, MinBytes) {
  EXPECT_EQ(MinBytes(Op(OpKind::kMatmul, {2, 3, 5, 0})), 4 * (10 + 15 + 6));
  OpDesc accumulating = Op(OpKind::kMatmul, {2, 3, 5, 0});
  accumulating.accumulate = true;
  accumulating.dtype = DType::kF64;
  EXPECT_EQ(MinBytes(accumulating), 8 * (10 + 15 + 12));
  EXPECT_EQ(MinBytes(Product(Epilogue::kBias, {2, 3, 5})), 4 * (10 + 15 + 6 + 3));
  EXPECT_EQ(MinBytes(Product(Epilogue::kActivation, {2, 3, 5})), 4 * (10 + 15 + 6 + 6)) << "two results";
  EXPECT_EQ(MinBytes(Product(Epilogue::kActivation, {2, 3, 5}, Activation::kGelu, true)),
            4 * (10 + 15 + 6 + 6 + 3));
  EXPECT_EQ(MinBytes(Product(Epilogue::kActivationGradient, {2, 3, 5})), 4 * (10 + 15 + 6 + 6))
      << "what the forward kept";
  OpDesc gradient = Product(Epilogue::kBiasGradient, {2, 3, 5});
  EXPECT_EQ(MinBytes(gradient), 4 * (10 + 15 + 6 + 3)) << "both gradients written";
  gradient.accumulate = true;
  EXPECT_EQ(MinBytes(gradient), 4 * (10 + 15 + 12 + 6)) << "both gradients in and out";
  EXPECT_EQ(MinBytes(Product(Epilogue::kResidual, {2, 3, 5})), 4 * (10 + 15 + 6 + 6))
      << "the residual is read";
  EXPECT_EQ(MinBytes(Product(Epilogue::kResidual, {2, 3, 5}, Activation::kGelu, true)),
            4 * (10 + 15 + 6 + 6 + 3));
  EXPECT_EQ(MinBytes(Op(OpKind::kFill, {100})), 400);
  OpDesc update = Op(OpKind::kAdamW, {100});
  update.moments = DType::kF32;
  EXPECT_EQ(MinBytes(update), 2800);
  EXPECT_EQ(MinBytes(Op(OpKind::kSgd, {100})), 100 * 3 * 4) << "gradient in, weights in and out";
  OpDesc with_master = Op(OpKind::kAdamW, {100});
  with_master.dtype = DType::kBF16;
  with_master.moments = with_master.master = DType::kF32;
  // Weights read and written in two bytes; the gradient read, the master copy and two moments read and
  // written, in four bytes.
  EXPECT_EQ(MinBytes(with_master), 100 * (2 + 4 + 3 * 8));
  OpDesc narrow = Op(OpKind::kAdamW, {100});
  narrow.dtype = DType::kBF16;
  narrow.gradients = narrow.moments = DType::kBF16;
  EXPECT_EQ(MinBytes(narrow), 100 * (2 + 2 * 4 + 4)) << "gradient in; moments and weights in and out";
  EXPECT_EQ(MinBytes(Op(OpKind::kResidualAdd, {4, 8})), 4 * 3 * 32);
  EXPECT_EQ(MinBytes(Op(OpKind::kScale, {4, 8})), 4 * 2 * 32);
  EXPECT_EQ(MinBytes(Op(OpKind::kRmsNormForward, {4, 8})), 4 * (2 * 32 + 8 + 4));
  const auto backward = [](OpKind kind, bool accumulate, std::array<std::int64_t, 5> dims = {4, 8, 100}) {
    OpDesc op = Op(kind, dims);
    op.accumulate = accumulate;
    return MinBytes(op);
  };
  EXPECT_EQ(backward(OpKind::kRmsNormBackward, true), 4 * (3 * 32 + 3 * 8 + 4));
  EXPECT_EQ(backward(OpKind::kRmsNormBackward, false), 4 * (3 * 32 + 2 * 8 + 4));
  EXPECT_EQ(backward(OpKind::kLayerNormBackward, true), 4 * (3 * 32 + 5 * 8 + 2 * 4));
  EXPECT_EQ(backward(OpKind::kLayerNormBackward, false), 4 * (3 * 32 + 3 * 8 + 2 * 4));
  EXPECT_EQ(backward(OpKind::kEmbeddingBackward, true), 4 * (3 * 32 + 4));
  EXPECT_EQ(backward(OpKind::kEmbeddingBackward, false), 4 * (32 + 800 + 4)) << "the whole table is written";
  // 4 tokens of 2 + 1 heads of 8: q and k, read, written and kept; two weights; rstd.
  EXPECT_EQ(MinBytes(Op(OpKind::kHeadNormForward, {4, 2, 8, 1})), 4 * (3 * 4 * 3 * 8 + 2 * 8 + 4 * 3));
  EXPECT_EQ(backward(OpKind::kHeadNormBackward, false, {4, 2, 8, 1}), 4 * (3 * 4 * 3 * 8 + 4 * 8 + 4 * 3));
  EXPECT_EQ(backward(OpKind::kHeadNormBackward, true, {4, 2, 8, 1}), 4 * (3 * 4 * 3 * 8 + 6 * 8 + 4 * 3));
  EXPECT_EQ(MinBytes(Op(OpKind::kQkSquares, {4, 2, 8, 1})), 4 * (4 * 24 + 2 * 4));
  EXPECT_EQ(MinBytes(Op(OpKind::kQkNormForward, {4, 2, 8, 1})), 4 * (3 * 4 * 24 + 24 + 4 * 4));
  EXPECT_EQ(MinBytes(Op(OpKind::kQkProducts, {4, 2, 8, 1})), 4 * (2 * 4 * 24 + 24 + 4 * 4));
  EXPECT_EQ(backward(OpKind::kQkNormBackward, false, {4, 2, 8, 1}), 4 * (3 * 4 * 24 + 2 * 24 + 4 * 4));
  EXPECT_EQ(backward(OpKind::kQkNormBackward, true, {4, 2, 8, 1}), 4 * (3 * 4 * 24 + 3 * 24 + 4 * 4));
  EXPECT_EQ(MinBytes(Op(OpKind::kRope, {4, 3, 8, 8})), 4 * 2 * 4 * 3 * 8);
  EXPECT_EQ(MinBytes(Op(OpKind::kRope, {4, 3, 8, 2})), 4 * 2 * 4 * 3 * 2);
  // q, k, v and the result, and one log-sum-exp per head and token: three heads share one key-value head.
  EXPECT_EQ(MinBytes(Op(OpKind::kAttentionForward, {2, 8, 3, 4, 1})),
            4 * (2 * 8 * (2 * 3 + 2 * 1) * 4 + 2 * 8 * 3));
  const auto activation = [](OpKind kind, Activation which, bool bias) {
    OpDesc op = Op(kind, {4, 8});
    op.activation = which;
    op.bias = bias;
    return MinBytes(op);
  };
  EXPECT_EQ(activation(OpKind::kActivationForward, Activation::kSwiGlu, false), 4 * (64 + 32));
  EXPECT_EQ(activation(OpKind::kActivationForward, Activation::kGeGlu, true), 4 * (64 + 32 + 64 + 16))
      << "x is written too";
  EXPECT_EQ(activation(OpKind::kActivationBackward, Activation::kSwiGlu, false), 4 * (64 + 32 + 64));
  EXPECT_EQ(MinBytes(Op(OpKind::kSend, {100})), 400);
  for (int i = 0; i < kOpKindCount; ++i) {
    EXPECT_GT(MinBytes(Op(static_cast<OpKind>(i), {2, 3, 4, 5, 6})), 0) << Name(static_cast<OpKind>(i));
  }
}

TEST(OpDesc, HashDistinguishesFields) {
  const OpDesc op = Op(OpKind::kMatmul, {2, 3, 5, 0});
  const OpDescHash hash;
  EXPECT_EQ(hash(op), hash(Op(OpKind::kMatmul, {2, 3, 5, 0})));
  std::set<std::size_t> hashes = {hash(op)};
  const auto differs = [&](OpDesc other) { return hashes.insert(hash(other)).second; };
  EXPECT_TRUE(differs(Op(OpKind::kFill, {2, 3, 5, 0})));
  EXPECT_TRUE(differs(Op(OpKind::kMatmul, {3, 2, 5, 0})));
  OpDesc other = op;
  other.transpose_a = true;
  EXPECT_TRUE(differs(other));
  other = op;
  other.transpose_b = true;
  EXPECT_TRUE(differs(other));
  for (int i = 1; i < kEpilogueCount; ++i) {
    other = op;
    other.epilogue = static_cast<Epilogue>(i);
    EXPECT_TRUE(differs(other));
  }
  other = op;
  other.accumulate = true;
  EXPECT_TRUE(differs(other));
  other = op;
  other.dtype = DType::kF64;
  EXPECT_TRUE(differs(other));
  other = op;
  other.bias = true;
  EXPECT_TRUE(differs(other));
  other = op;
  for (std::optional<DType> OpDesc::*type : {&OpDesc::gradients, &OpDesc::moments, &OpDesc::master}) {
    other = op;
    other.*type = DType::kF32;
    EXPECT_TRUE(differs(other)) << "fp32 is not the absence of a type";
  }
  for (const Activation activation : {Activation::kGeluErf, Activation::kRelu, Activation::kSwiGlu,
                                      Activation::kGeGlu, Activation::kSquaredRelu}) {
    other = op;
    other.activation = activation;
    EXPECT_TRUE(differs(other));
  }
  for (const CommGroup group : {CommGroup::kTensor, CommGroup::kData, CommGroup::kPipeline,
                                CommGroup::kEmbedding, CommGroup::kWorld}) {
    other = op;
    other.group = group;
    EXPECT_TRUE(differs(other));
  }
  other = op;
  other.group_size = 2;
  EXPECT_TRUE(differs(other));
  EXPECT_TRUE(differs(Op(OpKind::kMatmul, {2, 3, 5, 0, 1})));
}

}  // namespace
}  // namespace autocfg
