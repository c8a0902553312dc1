// The errors that every Ops must report, computing or not: an op whose operands violate its requirements
// throws std::invalid_argument that names the op. Include in one test file and instantiate OpsShapeSuite.
#pragma once

#include <array>
#include <limits>
#include <stdexcept>

#include "search/ops/memory_sizes.h"
#include "tests/conformance/ops/ops_fixture.h"

namespace autocfg {

class OpsShapeSuite : public testing::TestWithParam<OpsUnderTest> {
 protected:
  Tensor T(Shape shape) { return dev_.Put(shape, Sized(shape, 0)); }
  Tensor Of(Shape shape, DType type) {
    return type == DType::kF64 ? dev_.Put(shape, Sized(shape, 0), type) : dev_.New(shape, type);
  }
  Tensor Ids(std::int64_t n) {
    return dev_.PutTokens(std::vector<std::int32_t>(static_cast<std::size_t>(n), 0));
  }

  // Returns a type that differs from the type of T's tensors.
  DType OtherType() const { return dev_.type == DType::kBF16 ? DType::kF32 : DType::kBF16; }

  static Values Sized(Shape shape, double value) {
    std::int64_t n = 1;
    for (std::int64_t dim : shape) n *= dim;
    return Values(static_cast<std::size_t>(n), value);
  }

  void Refused(const std::function<void()>& op, const std::string& name) {
    try {
      op();
      ADD_FAILURE() << name << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()).rfind(name + ": ", 0), 0u) << error.what();
    }
  }

  OnDevice dev_{GetParam()};
  Ops& ops_ = *dev_.ops;
  Stream& s_ = *dev_.stream;
};

TEST_P(OpsShapeSuite, Matmul) {
  const auto run = [&](Tensor a, bool ta, Tensor b, bool tb, Tensor c) {
    return [=, this] { ops_.Matmul(a, Transpose{ta}, b, Transpose{tb}, c, false, s_); };
  };
  EXPECT_NO_THROW(run(T({2, 3}), false, T({3, 4}), false, T({2, 4}))());
  EXPECT_NO_THROW(run(T({3, 2}), true, T({4, 3}), true, T({2, 4}))());
  Refused(run(T({2, 3}), true, T({3, 4}), false, T({2, 4})), "matmul");
  Refused(run(T({2, 3}), false, T({3, 4}), true, T({2, 4})), "matmul");
  Refused(run(T({2, 3}), false, T({4, 4}), false, T({2, 4})), "matmul");
  Refused(run(T({2, 3}), false, T({3, 4}), false, T({2, 5})), "matmul");
  Refused(run(T({2, 3}), false, T({3, 4}), false, T({8})), "matmul");
  Refused(run(Of({2, 3}, DType::kI32), false, T({3, 4}), false, T({2, 4})), "matmul");
}

TEST_P(OpsShapeSuite, MatmulWithAnEpilogue) {
  const Tensor a = T({2, 3}), b = T({3, 4}), bt = T({4, 3}), bias = T({4}), c = T({2, 4}), bad = T({3});
  const auto with_bias = [&](Tensor vector, Tensor result) {
    return [=, this] { ops_.MatmulBias(a, b, vector, result, s_); };
  };
  EXPECT_NO_THROW(with_bias(bias, c)());
  Refused(with_bias(bad, c), "matmul");
  Refused(with_bias({}, c), "matmul");
  Refused(with_bias(bias, T({4, 2})), "matmul");
  const auto with_residual = [&](Tensor vector, Tensor residual, Tensor result) {
    return [=, this] { ops_.MatmulResidual(a, b, vector, residual, result, s_); };
  };
  EXPECT_NO_THROW(with_residual(bias, T({2, 4}), c)());
  EXPECT_NO_THROW(with_residual({}, T({2, 4}), c)());
  Refused(with_residual(bad, T({2, 4}), c), "matmul");
  Refused(with_residual(bias, T({4, 2}), c), "matmul");
  Refused(with_residual(bias, {}, c), "matmul");
  Refused(with_residual(bias, Of({2, 4}, OtherType()), c), "matmul");
  if (c.data != nullptr) Refused(with_residual(bias, c, c), "matmul");
  const auto forward = [&](Activation f, Tensor vector, Tensor pre, Tensor y) {
    return [=, this] { ops_.MatmulActivation(f, a, b, vector, pre, y, s_); };
  };
  const auto backward = [&](Activation f, Tensor matrix, Tensor pre, Tensor dpre) {
    return [=, this] { ops_.MatmulActivationBackward(f, a, matrix, pre, dpre, s_); };
  };
  for (int i = 0; i < kActivationCount; ++i) {
    const auto f = static_cast<Activation>(i);
    if (IsGated(f)) {
      Refused(forward(f, bias, T({2, 4}), T({2, 4})), "matmul");
      Refused(forward(f, bias, T({2, 4}), T({2, 2})), "matmul");
      Refused(backward(f, bt, c, T({2, 4})), "matmul");
      continue;
    }
    EXPECT_NO_THROW(forward(f, bias, T({2, 4}), T({2, 4}))()) << Name(f);
    EXPECT_NO_THROW(forward(f, {}, T({2, 4}), T({2, 4}))()) << Name(f);
    Refused(forward(f, bad, T({2, 4}), T({2, 4})), "matmul");
    Refused(forward(f, bias, T({4, 2}), T({2, 4})), "matmul");
    Refused(forward(f, bias, T({2, 4}), T({2, 2})), "matmul");
    EXPECT_NO_THROW(backward(f, bt, c, T({2, 4}))()) << Name(f);
    Refused(backward(f, b, c, T({2, 4})), "matmul");
    Refused(backward(f, bt, T({2, 3}), T({2, 4})), "matmul");
    Refused(backward(f, bt, c, T({2, 3})), "matmul");
    if (c.data == nullptr) continue;
    Refused(forward(f, bias, c, c), "matmul");
    Refused(backward(f, bt, c, c), "matmul");
  }
  const auto gradient = [&](Tensor x, Tensor dw, Tensor dbias) {
    return [=, this] { ops_.MatmulBiasGradient(x, c, dw, dbias, true, s_); };
  };
  EXPECT_NO_THROW(gradient(a, T({3, 4}), T({4}))());
  Refused(gradient(T({3, 2}), T({3, 4}), T({4})), "matmul");
  Refused(gradient(a, T({4, 3}), T({4})), "matmul");
  Refused(gradient(a, T({3, 4}), T({3})), "matmul");
  Refused(gradient(a, T({3, 4}), Of({4}, OtherType())), "matmul");
}

TEST_P(OpsShapeSuite, LayerNorm) {
  const Tensor x = T({2, 3}), w = T({3}), rows = T({2}), bad = T({4});
  EXPECT_NO_THROW(ops_.LayerNormForward(x, w, w, 1e-5, T({2, 3}), rows, T({2}), s_));
  Refused([&] { ops_.LayerNormForward(x, bad, w, 1e-5, T({2, 3}), rows, rows, s_); }, "layer_norm_forward");
  Refused([&] { ops_.LayerNormForward(x, w, bad, 1e-5, T({2, 3}), rows, rows, s_); }, "layer_norm_forward");
  Refused([&] { ops_.LayerNormForward(x, w, w, 1e-5, T({3, 2}), rows, rows, s_); }, "layer_norm_forward");
  Refused([&] { ops_.LayerNormForward(x, w, w, 1e-5, T({2, 3}), bad, rows, s_); }, "layer_norm_forward");
  Refused([&] { ops_.LayerNormForward(x, w, w, 1e-5, T({2, 3}), rows, bad, s_); }, "layer_norm_forward");
  const auto backward = [&](Tensor dy, Tensor dx, bool add, Tensor dgamma, Tensor dbeta) {
    return [=, this] { ops_.LayerNormBackward(dy, x, w, rows, rows, dx, add, dgamma, dbeta, true, s_); };
  };
  EXPECT_NO_THROW(backward(T({2, 3}), T({2, 3}), true, T({3}), T({3}))());
  Refused(backward(T({2, 4}), T({2, 3}), true, T({3}), T({3})), "layer_norm_backward");
  Refused(backward(T({2, 3}), T({1, 3}), true, T({3}), T({3})), "layer_norm_backward");
  Refused(backward(T({2, 3}), T({2, 3}), true, bad, T({3})), "layer_norm_backward");
  Refused(backward(T({2, 3}), T({2, 3}), true, T({3}), bad), "layer_norm_backward");
  if (x.data != nullptr) {
    const Tensor both = T({2, 3});
    EXPECT_NO_THROW(backward(both, both, false, T({3}), T({3}))());
    Refused(backward(both, both, true, T({3}), T({3})), "layer_norm_backward");
  }
}

TEST_P(OpsShapeSuite, RmsNorm) {
  const Tensor x = T({2, 3}), w = T({3}), rows = T({2}), bad = T({4});
  EXPECT_NO_THROW(ops_.RmsNormForward(x, w, 1e-5, T({2, 3}), rows, s_));
  Refused([&] { ops_.RmsNormForward(T({6}), w, 1e-5, T({2, 3}), rows, s_); }, "rms_norm_forward");
  Refused([&] { ops_.RmsNormForward(x, bad, 1e-5, T({2, 3}), rows, s_); }, "rms_norm_forward");
  Refused([&] { ops_.RmsNormForward(x, w, 1e-5, T({3, 2}), rows, s_); }, "rms_norm_forward");
  Refused([&] { ops_.RmsNormForward(x, w, 1e-5, T({2, 3}), bad, s_); }, "rms_norm_forward");
  const auto backward = [&](Tensor dy, Tensor rstd, Tensor dx, bool add, Tensor dgamma) {
    return [=, this] { ops_.RmsNormBackward(dy, x, w, rstd, dx, add, dgamma, true, s_); };
  };
  EXPECT_NO_THROW(backward(T({2, 3}), rows, T({2, 3}), true, T({3}))());
  Refused(backward(T({2, 4}), rows, T({2, 3}), true, T({3})), "rms_norm_backward");
  Refused(backward(T({2, 3}), bad, T({2, 3}), true, T({3})), "rms_norm_backward");
  Refused(backward(T({2, 3}), rows, T({1, 3}), true, T({3})), "rms_norm_backward");
  Refused(backward(T({2, 3}), rows, T({2, 3}), true, bad), "rms_norm_backward");
  if (x.data != nullptr) {
    const Tensor both = T({2, 3});
    EXPECT_NO_THROW(backward(both, rows, both, false, T({3}))());
    Refused(backward(both, rows, both, true, T({3})), "rms_norm_backward");
  }
}

TEST_P(OpsShapeSuite, BiasAndResidual) {
  const Tensor y = T({2, 3}), bias = T({3}), bad = T({2});
  EXPECT_NO_THROW(ops_.BiasResidual(y, bias, T({2, 3}), s_));
  Refused([&] { ops_.BiasResidual(y, bad, T({2, 3}), s_); }, "bias_residual");
  Refused([&] { ops_.BiasResidual(y, bias, T({3, 3}), s_); }, "bias_residual");
  EXPECT_NO_THROW(ops_.ResidualAdd(y, T({2, 3}), s_));
  Refused([&] { ops_.ResidualAdd(y, T({3, 3}), s_); }, "residual_add");
  Refused([&] { ops_.ResidualAdd(T({6}), T({6}), s_); }, "residual_add");
  Refused([&] { ops_.ResidualAdd(y, {}, s_); }, "residual_add");
  EXPECT_NO_THROW(ops_.Scale(y, 2.5, y, s_));
  EXPECT_NO_THROW(ops_.Scale(y, 2.5, T({2, 3}), s_));
  Refused([&] { ops_.Scale(T({6}), 2.5, T({6}), s_); }, "scale");
  Refused([&] { ops_.Scale(y, 2.5, T({3, 2}), s_); }, "scale");
  Refused([&] { ops_.Scale(y, 2.5, {}, s_); }, "scale");
  Refused([&] { ops_.Scale(y, std::numeric_limits<double>::quiet_NaN(), y, s_); }, "scale");
}

TEST_P(OpsShapeSuite, Activation) {
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    const std::int64_t width = 6;
    const Tensor x = T({2, width}), bias = T({width}), y = T({2, 3});
    const auto forward = [&](Tensor a, Tensor b, Tensor c) {
      return [=, this] { ops_.ActivationForward(activation, a, b, c, s_); };
    };
    const auto backward = [&](Tensor a, Tensor dy, Tensor dx) {
      return [=, this] { ops_.ActivationBackward(activation, a, dy, dx, s_); };
    };
    if (!IsGated(activation)) {  // plain activations are epilogues
      Refused(forward(x, bias, y), "activation_forward");
      Refused(forward(x, bias, T({2, width})), "activation_forward");
      Refused(backward(x, T({2, width}), T({2, width})), "activation_backward");
      continue;
    }
    EXPECT_NO_THROW(forward(x, bias, y)()) << Name(activation);
    EXPECT_NO_THROW(forward(x, {}, y)()) << Name(activation);
    Refused(forward(x, T({2}), y), "activation_forward");
    Refused(forward(x, bias, T({2, 4})), "activation_forward");
    Refused(forward(x, {}, T({3, 2})), "activation_forward");
    Refused(forward(T({12}), {}, y), "activation_forward");
    Refused(forward(T({2, 3}), {}, y), "activation_forward");
    Refused(forward(T({2, 7}), {}, y), "activation_forward");
    EXPECT_NO_THROW(backward(x, y, T({2, width}))()) << Name(activation);
    Refused(backward(x, T({3, 2}), T({2, width})), "activation_backward");
    Refused(backward(x, y, y), "activation_backward");
    Refused(backward(x, y, T({width, 2})), "activation_backward");
  }
}

TEST_P(OpsShapeSuite, NormsOfHeads) {
  const Tensor qkv = T({3, 12}), gamma = T({3}), raw = T({3, 9}),
               rstd = T({3, 3});  // 2 heads and 1, of 3 dims
  const auto forward = [&](Tensor x, std::int64_t heads, Tensor of_q, Tensor of_k, Tensor kept, Tensor s) {
    return [=, this] { ops_.HeadNormForward(x, heads, 1, of_q, of_k, 1e-5, kept, s, s_); };
  };
  EXPECT_NO_THROW(forward(qkv, 2, gamma, gamma, raw, rstd)());
  Refused(forward(qkv, 0, gamma, gamma, raw, rstd), "head_norm_forward");
  Refused(forward(qkv, 3, gamma, gamma, raw, rstd), "head_norm_forward");
  Refused(forward(T({3, 1, 12}), 2, gamma, gamma, raw, rstd), "head_norm_forward");
  Refused(forward(qkv, 2, T({4}), gamma, raw, rstd), "head_norm_forward");
  Refused(forward(qkv, 2, gamma, T({6}), raw, rstd), "head_norm_forward");
  Refused(forward(qkv, 2, gamma, gamma, T({3, 12}), rstd), "head_norm_forward");
  Refused(forward(qkv, 2, gamma, gamma, raw, T({3})), "head_norm_forward");
  const auto backward = [&](Tensor dx, Tensor kept, Tensor s, Tensor dq, Tensor dk) {
    return [=, this] { ops_.HeadNormBackward(dx, 2, 1, kept, gamma, gamma, s, dq, dk, false, s_); };
  };
  EXPECT_NO_THROW(backward(qkv, raw, rstd, T({3}), T({3}))());
  Refused(backward(T({3, 13}), raw, rstd, T({3}), T({3})), "head_norm_backward");
  Refused(backward(qkv, T({2, 9}), rstd, T({3}), T({3})), "head_norm_backward");
  Refused(backward(qkv, raw, T({3, 2}), T({3}), T({3})), "head_norm_backward");
  Refused(backward(qkv, raw, rstd, T({6}), T({3})), "head_norm_backward");
  Refused(backward(qkv, raw, rstd, T({3}), T({2})), "head_norm_backward");
}

TEST_P(OpsShapeSuite, NormsOfAllQueriesAndKeys) {
  const Tensor qkv = T({3, 12}), q = T({6}), k = T({3}), raw = T({3, 9}), sums = T({3, 2});  // 2 heads and 1
  const auto squares = [&](Tensor x, Tensor s) { return [=, this] { ops_.QkSquares(x, 2, 1, s, s_); }; };
  EXPECT_NO_THROW(squares(qkv, sums)());
  Refused(squares(T({3, 13}), sums), "qk_squares");
  Refused(squares(qkv, T({3})), "qk_squares");
  const auto forward = [&](Tensor x, std::int64_t ranks, Tensor of_q, Tensor of_k, Tensor kept, Tensor s) {
    return [=, this] { ops_.QkNormForward(x, 2, 1, ranks, of_q, of_k, 1e-5, kept, s, s_); };
  };
  EXPECT_NO_THROW(forward(qkv, 2, q, k, raw, sums)());
  Refused(forward(qkv, 0, q, k, raw, sums), "qk_norm_forward");
  Refused(forward(qkv, 2, k, k, raw, sums), "qk_norm_forward");
  Refused(forward(qkv, 2, q, q, raw, sums), "qk_norm_forward");
  Refused(forward(qkv, 2, q, k, qkv, sums), "qk_norm_forward");
  Refused(forward(qkv, 2, q, k, raw, T({3, 3})), "qk_norm_forward");
  const auto products = [&](Tensor dx, Tensor kept, Tensor to) {
    return [=, this] { ops_.QkProducts(dx, 2, 1, kept, q, k, sums, to, s_); };
  };
  EXPECT_NO_THROW(products(qkv, raw, T({3, 2}))());
  Refused(products(qkv, qkv, T({3, 2})), "qk_products");
  Refused(products(qkv, raw, T({2, 3})), "qk_products");
  const auto backward = [&](std::int64_t ranks, Tensor of_group, Tensor dq, Tensor dk) {
    return [=, this] { ops_.QkNormBackward(qkv, 2, 1, ranks, raw, q, k, sums, of_group, dq, dk, false, s_); };
  };
  EXPECT_NO_THROW(backward(2, T({3, 2}), T({6}), T({3}))());
  Refused(backward(0, T({3, 2}), T({6}), T({3})), "qk_norm_backward");
  Refused(backward(2, T({3}), T({6}), T({3})), "qk_norm_backward");
  Refused(backward(2, T({3, 2}), T({3}), T({3})), "qk_norm_backward");
  Refused(backward(2, T({3, 2}), T({6}), T({6})), "qk_norm_backward");
}

TEST_P(OpsShapeSuite, Rope) {
  const Tensor qkv = T({2, 3, 12});
  const auto partial = [&](Tensor a, std::int64_t heads, std::int64_t dim, std::int64_t rotary,
                           double theta) {
    return [=, this] { ops_.Rope(a, heads, dim, rotary, theta, false, s_); };
  };
  const auto rope = [&](Tensor a, std::int64_t heads, std::int64_t dim, double theta) {
    return partial(a, heads, dim, dim, theta);
  };
  EXPECT_NO_THROW(rope(qkv, 2, 4, 1e4)());
  EXPECT_NO_THROW(rope(qkv, 3, 4, 1e4)());
  Refused(rope(qkv, 4, 4, 1e4), "rope");
  Refused(rope(qkv, 0, 4, 1e4), "rope");
  Refused(rope(qkv, 2, 3, 1e4), "rope");
  Refused(rope(qkv, 2, 0, 1e4), "rope");
  Refused(rope(qkv, 2, 4, 0), "rope");
  Refused(rope(qkv, 2, 4, std::numeric_limits<double>::infinity()), "rope");
  Refused(rope(T({6, 12}), 2, 4, 1e4), "rope");
  EXPECT_NO_THROW(partial(qkv, 2, 4, 2, 1e4)());
  EXPECT_NO_THROW(partial(qkv, 4, 3, 2, 1e4)());
  Refused(partial(qkv, 2, 4, 3, 1e4), "rope");
  Refused(partial(qkv, 2, 4, 6, 1e4), "rope");
  Refused(partial(qkv, 2, 4, 0, 1e4), "rope");
  Refused(partial(qkv, 2, 4, -2, 1e4), "rope");
}

TEST_P(OpsShapeSuite, Attention) {
  const Tensor qkv = T({1, 4, 12}), out = T({1, 4, 4}), lse = T({1, 2, 4}),
               work = T({AttentionWorkspaceElements(4, 2)});
  const auto forward = [&](Tensor a, std::int64_t heads, Tensor o, Tensor l, Tensor w) {
    return [=, this] { ops_.AttentionForward(a, {heads, heads}, o, l, w, s_); };
  };
  const auto grouped = [&](Tensor a, std::int64_t heads, std::int64_t kv_heads) {
    return [=, this] { ops_.AttentionForward(a, {heads, kv_heads}, out, lse, work, s_); };
  };
  EXPECT_NO_THROW(grouped(T({1, 4, 8}), 2, 1)());
  Refused(grouped(qkv, 2, 0), "attention_forward");
  Refused(grouped(qkv, 2, 3), "attention_forward");
  Refused(grouped(qkv, 3, 2), "attention_forward");
  Refused(grouped(qkv, 2, 1), "attention_forward");
  EXPECT_NO_THROW(forward(qkv, 2, out, lse, work)());
  Refused(forward(qkv, 0, out, lse, work), "attention_forward");
  const auto formed = [&](const AttentionForm& form) {
    return [=, this] { ops_.AttentionForward(qkv, form, out, lse, work, s_); };
  };
  EXPECT_NO_THROW(formed({2, 2, 0.5, 5, 3})());
  Refused(formed({2, 2, -0.5}), "attention_forward");
  Refused(formed({2, 2, std::numeric_limits<double>::infinity()}), "attention_forward");
  Refused(formed({2, 2, std::numeric_limits<double>::quiet_NaN()}), "attention_forward");
  Refused(formed({2, 2, 0, 5, 4}), "attention_forward");
  Refused(formed({2, 2, 0, 1}), "attention_forward");
  Refused(formed({2, 2, 0, 5, -1}), "attention_forward");
  Refused(formed({2, 2, 0, -5}), "attention_forward");
  Refused(forward(qkv, 3, out, lse, work), "attention_forward");
  Refused(forward(T({1, 4, 13}), 1, out, lse, work), "attention_forward");
  Refused(forward(T({4, 12}), 2, out, lse, work), "attention_forward");
  Refused(forward(qkv, 2, T({1, 4, 12}), lse, work), "attention_forward");
  Refused(forward(qkv, 2, out, T({1, 4, 2}), work), "attention_forward");
  Refused(forward(qkv, 2, out, lse, T({AttentionWorkspaceElements(4, 2) - 1})), "attention_forward");
  const auto backward = [&](Tensor dout, Tensor dqkv) {
    return [=, this] { ops_.AttentionBackward(qkv, {2, 2}, out, lse, dout, dqkv, work, s_); };
  };
  EXPECT_NO_THROW(backward(T({1, 4, 4}), T({1, 4, 12}))());
  Refused(backward(T({1, 4, 5}), T({1, 4, 12})), "attention_backward");
  Refused(backward(T({1, 4, 4}), T({1, 4, 4})), "attention_backward");
}

TEST_P(OpsShapeSuite, UnfusedAttention) {
  const Tensor qkv = T({1, 4, 12}), out = T({1, 4, 4}), square = T({1, 2, 4, 4});
  const auto forward = [&](Tensor a, std::int64_t heads, std::int64_t kv_heads, Tensor p, Tensor o) {
    return [=, this] { ops_.UnfusedAttentionForward(a, {heads, kv_heads}, p, o, s_); };
  };
  EXPECT_NO_THROW(forward(qkv, 2, 2, square, out)());
  EXPECT_NO_THROW(forward(T({1, 4, 8}), 2, 1, square, out)());
  Refused(forward(qkv, 2, 0, square, out), "unfused_attention_forward");
  Refused(forward(qkv, 0, 2, square, out), "unfused_attention_forward");
  Refused(forward(qkv, 3, 2, square, out), "unfused_attention_forward");
  Refused(forward(qkv, 2, 1, square, out), "unfused_attention_forward");
  Refused(forward(T({4, 12}), 2, 2, square, out), "unfused_attention_forward");
  Refused(forward(qkv, 2, 2, T({1, 2, 4}), out), "unfused_attention_forward");
  Refused(forward(qkv, 2, 2, T({1, 1, 4, 4}), out), "unfused_attention_forward");
  Refused(forward(qkv, 2, 2, T({1, 2, 4, 5}), out), "unfused_attention_forward");
  Refused(forward(qkv, 2, 2, square, T({1, 4, 12})), "unfused_attention_forward");
  Refused(forward(qkv, 2, 2, Ids(32).Reshape({1, 2, 4, 4}), out), "unfused_attention_forward");
  const auto backward = [&](Tensor p, Tensor o, Tensor dout, Tensor dqkv, Tensor dscores) {
    return [=, this] { ops_.UnfusedAttentionBackward(qkv, {2, 2}, p, o, dout, dqkv, dscores, s_); };
  };
  const Tensor dout = T({1, 4, 4}), dqkv = T({1, 4, 12}), dscores = T({1, 2, 4, 4});
  EXPECT_NO_THROW(backward(square, out, dout, dqkv, dscores)());
  Refused(backward(T({1, 2, 4, 3}), out, dout, dqkv, dscores), "unfused_attention_backward");
  Refused(backward(square, T({1, 4, 5}), dout, dqkv, dscores), "unfused_attention_backward");
  Refused(backward(square, out, T({1, 4, 5}), dqkv, dscores), "unfused_attention_backward");
  Refused(backward(square, out, dout, T({1, 4, 4}), dscores), "unfused_attention_backward");
  Refused(backward(square, out, dout, dqkv, T({2, 4, 4})), "unfused_attention_backward");
  if (square.data != nullptr)
    Refused(backward(square, out, dout, dqkv, square), "unfused_attention_backward");
}

TEST_P(OpsShapeSuite, EmbeddingAndPosition) {
  EXPECT_NO_THROW(ops_.EmbeddingForward(Ids(2), T({5, 3}), 0, T({2, 3}), s_));
  Refused([&] { ops_.EmbeddingForward(Ids(3), T({5, 3}), 0, T({2, 3}), s_); }, "embedding_forward");
  Refused([&] { ops_.EmbeddingForward(Ids(2), T({5, 4}), 0, T({2, 3}), s_); }, "embedding_forward");
  Refused([&] { ops_.EmbeddingForward(T({2}), T({5, 3}), 0, T({2, 3}), s_); }, "embedding_forward");
  EXPECT_NO_THROW(ops_.EmbeddingBackward(Ids(2), T({2, 3}), 0, T({5, 3}), true, s_));
  Refused([&] { ops_.EmbeddingBackward(Ids(1), T({2, 3}), 0, T({5, 3}), true, s_); }, "embedding_backward");
  Refused([&] { ops_.EmbeddingBackward(Ids(2), T({2, 3}), 0, T({5, 2}), true, s_); }, "embedding_backward");
  EXPECT_NO_THROW(ops_.PositionForward(T({6, 4}), 3, 2, T({3, 4}), s_));
  Refused([&] { ops_.PositionForward(T({6, 4}), 3, 0, T({2, 4}), s_); }, "position_forward");
  Refused([&] { ops_.PositionForward(T({6, 4}), 3, -1, T({3, 4}), s_); }, "position_forward");
  Refused([&] { ops_.PositionForward(T({6, 4}), 0, 0, T({3, 4}), s_); }, "position_forward");
  Refused([&] { ops_.PositionForward(T({2, 3, 4}), 3, 0, T({3, 4}), s_); }, "position_forward");
  EXPECT_NO_THROW(ops_.PositionBackward(T({2, 3, 4}), T({5, 4}), true, s_));
  Refused([&] { ops_.PositionBackward(T({2, 3, 4}), T({5, 3}), true, s_); }, "position_backward");
}

TEST_P(OpsShapeSuite, CrossEntropy) {
  const Tensor logits = T({2, 5});
  const auto loss = [&] { return Of({1}, DType::kF64); };
  EXPECT_NO_THROW(ops_.CrossEntropy(logits, 5, Ids(2), 1, loss(), s_));
  Refused([&] { ops_.CrossEntropy(logits, 6, Ids(2), 1, loss(), s_); }, "cross_entropy");
  Refused([&] { ops_.CrossEntropy(logits, 0, Ids(2), 1, loss(), s_); }, "cross_entropy");
  Refused([&] { ops_.CrossEntropy(logits, -1, Ids(2), 1, loss(), s_); }, "cross_entropy");
  Refused([&] { ops_.CrossEntropy(logits, 5, Ids(3), 1, loss(), s_); }, "cross_entropy");
  Refused([&] { ops_.CrossEntropy(logits, 5, Ids(2), 1, Of({2}, DType::kF64), s_); }, "cross_entropy");
  const auto forward = [&](std::int64_t valid, Tensor targets, Tensor max, Tensor sums) {
    return [=, this] { ops_.CrossEntropyForward(logits, valid, targets, 0, max, sums, s_); };
  };
  EXPECT_NO_THROW(forward(4, Ids(2), T({2}), T({2, 2}))());
  Refused(forward(6, Ids(2), T({2}), T({2, 2})), "cross_entropy_forward");
  Refused(forward(-1, Ids(2), T({2}), T({2, 2})), "cross_entropy_forward");
  Refused(forward(4, Ids(3), T({2}), T({2, 2})), "cross_entropy_forward");
  Refused(forward(4, Ids(2), T({5}), T({2, 2})), "cross_entropy_forward");
  Refused(forward(4, Ids(2), T({2}), T({1, 2})), "cross_entropy_forward");
  EXPECT_NO_THROW(ops_.CrossEntropyRescale(T({3}), T({2, 3}), s_));
  Refused([&] { ops_.CrossEntropyRescale(T({2}), T({2, 3}), s_); }, "cross_entropy_rescale");
  Refused([&] { ops_.CrossEntropyRescale(T({3}), T({3, 3}), s_); }, "cross_entropy_rescale");
  EXPECT_NO_THROW(ops_.CrossEntropyLoss(T({3}), T({2, 3}), loss(), s_));
  Refused([&] { ops_.CrossEntropyLoss(T({2}), T({2, 3}), loss(), s_); }, "cross_entropy_loss");
  Refused([&] { ops_.CrossEntropyLoss(T({2}), T({3, 2}), loss(), s_); }, "cross_entropy_loss");
  Refused([&] { ops_.CrossEntropyLoss(T({3}), T({2, 3}), Of({1}, DType::kF32), s_); }, "cross_entropy_loss");
  EXPECT_NO_THROW(ops_.CrossEntropyBackward(logits, 5, T({2, 2}), Ids(2), 0, 1, s_));
  Refused(
      [&] {
        ops_.CrossEntropyBackward(logits, 6, T({2, 2}), Ids(2), 0, 1, s_);
      },
      "cross_entropy_backward");
  Refused(
      [&] {
        ops_.CrossEntropyBackward(logits, 5, T({2, 5}), Ids(2), 0, 1, s_);
      },
      "cross_entropy_backward");
  Refused(
      [&] {
        ops_.CrossEntropyBackward(logits, 5, T({2, 2}), Ids(5), 0, 1, s_);
      },
      "cross_entropy_backward");
}

TEST_P(OpsShapeSuite, WholeTensors) {
  EXPECT_NO_THROW(ops_.Fill(T({2, 3}), 1, s_));
  Refused([&] { ops_.Fill(Ids(2), 1, s_); }, "fill");
}

TEST_P(OpsShapeSuite, ListsOfTensors) {
  const auto sum = [&](std::vector<Tensor> list, Tensor result) {
    return [=, this] { ops_.SumOfSquares(list, result, s_); };
  };
  const auto result = [&] { return Of({1}, DType::kF64); };
  EXPECT_NO_THROW(sum({T({2, 3}), T({7})}, result())());
  EXPECT_NO_THROW(sum({}, result())());
  Refused(sum({T({2, 3})}, Of({2}, DType::kF64)), "sum_of_squares");
  Refused(sum({T({2, 3})}, Of({1}, DType::kF32)), "sum_of_squares");
  Refused(sum({T({2, 3}), Ids(2)}, result()), "sum_of_squares");
  Refused(sum({T({2, 3}), Of({2, 3}, OtherType())}, result()), "sum_of_squares");
  const auto update = [&](std::vector<AdamWTensor> list) { return [=, this] { ops_.AdamW(list, {}, s_); }; };
  const auto clipped_by = [&](Tensor squared_norm) {
    return [=, this] {
      ops_.AdamW(std::array{AdamWTensor{T({5}), T({5}), {}, T({5}), T({5})}},
                 {.clip_norm = 1, .squared_norm = squared_norm}, s_);
    };
  };
  Refused(clipped_by({}), "adamw");
  Refused(clipped_by(Of({2}, DType::kF64)), "adamw");
  Refused(clipped_by(Of({1}, DType::kI32)), "adamw");
  const auto good = [&](Shape shape) { return AdamWTensor{T(shape), T(shape), {}, T(shape), T(shape)}; };
  EXPECT_NO_THROW(update({good({2, 3}), good({5})})());
  EXPECT_NO_THROW(update({})());
  Refused(update({good({5}), {T({2, 3}), T({3, 2}), {}, T({2, 3}), T({2, 3})}}), "adamw");
  Refused(update({{T({2, 3}), T({2, 3}), {}, T({6}), T({2, 3})}}), "adamw");
  Refused(update({{T({2, 3}), T({2, 3}), {}, T({2, 3}), T({1, 3})}}), "adamw");
  Refused(update({{T({2, 3}), T({2, 3}), T({3, 2}), T({2, 3}), T({2, 3})}}), "adamw");
  Refused(update({{T({2, 3}), T({2, 3}), Of({2, 3}, OtherType()), T({2, 3}), T({2, 3})}}), "adamw");
  Refused(update({good({5}), {T({2, 3}), T({2, 3}), T({2, 3}), T({2, 3}), T({2, 3})}}), "adamw");
  Refused(update({good({5}), {T({2}), T({2}), {}, T({2}), Of({2}, OtherType())}}), "adamw");
}

}  // namespace autocfg
