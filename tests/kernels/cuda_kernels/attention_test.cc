// Our own attention kernels against the double-precision reference of the conformance suite. Operands are
// exactly representable in the kernels' type, so only the kernels' own rounding remains.
#include "kernels/cuda/attention/attention.h"

#include <cuda_bf16.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/conformance/ops/attention_low_scores.h"
#include "tests/conformance/ops/ops_reference.h"
#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

using reference::AttentionSizes;

AttentionShape KernelShapeOf(const AttentionSizes& z) {
  return {z.batch, z.seq,         z.heads,      z.kv_heads, z.dim,
          z.scale, z.alibi_heads, z.first_head, z.softcap,  z.window};
}

// Expects a difference of at most `tolerance` times the largest magnitude of `want`, however small that is.
void ExpectClose(const Values& got, const Values& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1e-3;
  for (double w : want) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= tolerance * scale)
        << what << '[' << i << "] is " << got[i] << ", want " << want[i] << " within " << tolerance * scale;
  }
}

template <typename T>
void ExpectAttention(const AttentionSizes& z, double magnitude, double tolerance) {
  SCOPED_TRACE(fmt::format("B{} S{} N{} G{} D{}, magnitude {}", z.batch, z.seq, z.heads, z.kv_heads, z.dim,
                           magnitude));
  const AttentionShape shape = KernelShapeOf(z);
  const Values qkv = RoundedTo<T>(Random(z.Tokens() * z.Row(), 1, -magnitude, magnitude)),
               dout = RoundedTo<T>(Random(z.Tokens() * z.Width(), 2));
  const reference::Attention want = reference::CausalAttention(z, qkv, dout);
  const DeviceArray<T> qkv_(qkv), dout_(dout), out(z.Tokens() * z.Width()), dqkv(z.Tokens() * z.Row());
  const DeviceArray<float> lse(z.batch * z.heads * z.seq), delta(AttentionDeltaElements(shape));
  AttentionForward(shape, qkv_.data(), out.data(), lse.data(), nullptr);
  ExpectClose(out.Get(), want.out, tolerance, "out");
  // The log-sum-exp is float for every T; only the sums of products differ.
  ExpectClose(lse.Get(), want.lse, 1e-5, "lse");
  AttentionBackward(shape, qkv_.data(), out.data(), lse.data(), dout_.data(), dqkv.data(), delta.data(),
                    nullptr);
  ExpectClose(dqkv.Get(), want.dqkv, tolerance, "dqkv");
  EXPECT_EQ(qkv_.Get(), qkv) << "the input was changed";
  EXPECT_EQ(dout_.Get(), dout) << "the input was changed";
}

using CudaAttention = KernelTest;

// Any head dimension, partial tiles of 32 rows, partial blocks of 8 rows, shared key-value heads.
const std::vector<AttentionSizes>& PlainSizes() {
  static const std::vector<AttentionSizes> sizes{{1, 1, 1, 1, 1},  {1, 1, 2, 8, 1},    {2, 7, 2, 3, 2},
                                                 {1, 8, 1, 33, 1}, {1, 33, 3, 8, 1},   {1, 64, 4, 5, 2},
                                                 {2, 41, 6, 4, 2}, {1, 100, 1, 20, 1}, {1, 12, 1, 250, 1}};
  return sizes;
}

TEST_F(CudaAttention, PlainInFloat) {
  for (const AttentionSizes& z : PlainSizes()) ExpectAttention<float>(z, 1, 2e-6);
  ExpectAttention<float>({1, 70, 2, 64, 1}, 1, 2e-6);  // float has no tensor core path
  ExpectAttention<float>({1, 40, 1, 256, 1}, 1, 2e-6);
  ExpectAttention<float>({1, 35, 2, 6, 1}, 20, 2e-5);
}

TEST_F(CudaAttention, PlainInBf16) {
  for (const AttentionSizes& z : PlainSizes()) ExpectAttention<__nv_bfloat16>(z, 1, 8e-3);
}

TEST_F(CudaAttention, OnTensorCores) {
  // Every compiled number of tile columns, exact and padded; partial tiles of 64 rows; one row; shared
  // key-value heads.
  for (const AttentionSizes& z : std::vector<AttentionSizes>{
           {1, 1, 1, 16, 1},   {2, 5, 2, 16, 1},   {1, 63, 1, 32, 1},  {1, 64, 2, 64, 2},  {2, 65, 2, 48, 1},
           {1, 129, 4, 64, 2}, {1, 70, 3, 80, 1},  {1, 67, 1, 96, 1},  {1, 66, 1, 112, 1}, {1, 65, 2, 128, 1},
           {1, 66, 1, 160, 1}, {1, 34, 1, 192, 1}, {1, 34, 1, 240, 1}, {1, 98, 2, 256, 1}, {1, 20, 2, 8, 1},
           {1, 65, 2, 24, 2},  {1, 70, 4, 72, 2},  {1, 66, 2, 88, 1},  {1, 65, 1, 104, 1}, {2, 33, 2, 136, 1},
           {1, 66, 2, 200, 1}}) {
    ExpectAttention<__nv_bfloat16>(z, 1, 8e-3);
  }
  ExpectAttention<__nv_bfloat16>({1, 130, 2, 32, 1}, 4, 1e-2);
}

// Scores with another scale and ALiBi's bias: plain and, with every number of tile columns, on tensor cores.
TEST_F(CudaAttention, WithScalesAndLinearBiases) {
  for (const AttentionSizes& z : std::vector<AttentionSizes>{{1, 33, 3, 8, 1, 0.2},
                                                             {2, 41, 6, 4, 2, 0, 6},
                                                             {1, 70, 3, 5, 1, 0.1, 12, 7},
                                                             {1, 40, 5, 20, 5, 0, 112, 100}}) {
    ExpectAttention<float>(z, 1, 2e-6);
    ExpectAttention<__nv_bfloat16>(z, 1, 8e-3);
  }
  for (const AttentionSizes& z : std::vector<AttentionSizes>{{1, 65, 2, 32, 1, 0.05},
                                                             {2, 33, 2, 16, 1, 0, 2},
                                                             {1, 130, 4, 64, 2, 0, 4},
                                                             {1, 70, 3, 80, 1, 0, 12, 7},
                                                             {1, 67, 1, 96, 1, 0.2, 12, 11},
                                                             {1, 129, 2, 128, 1, 0, 71, 60},
                                                             {1, 66, 1, 192, 1, 0, 8, 7},
                                                             {1, 66, 2, 256, 1, 0, 3, 1}}) {
    ExpectAttention<__nv_bfloat16>(z, 1, 8e-3);
  }
}

// Soft caps and windows, alone and together, with and without ALiBi: plain and, with every number of tile
// columns, on tensor cores. Windows within a tile, across tiles, and of a whole number of them.
TEST_F(CudaAttention, WithSoftCapsAndWindows) {
  for (const AttentionSizes& z : std::vector<AttentionSizes>{{1, 33, 3, 8, 1, 0, 0, 0, 0.7},
                                                             {2, 41, 6, 4, 2, 0, 0, 0, 0, 1},
                                                             {1, 100, 2, 5, 1, 0, 0, 0, 0, 32},
                                                             {1, 130, 2, 20, 1, 0, 0, 0, 0, 9},
                                                             {1, 70, 3, 5, 1, 0.1, 12, 7, 2, 33}}) {
    ExpectAttention<float>(z, 1, 2e-6);
    ExpectAttention<__nv_bfloat16>(z, 1, 8e-3);
  }
  for (const AttentionSizes& z : std::vector<AttentionSizes>{{1, 65, 2, 32, 1, 0, 0, 0, 0.5},
                                                             {1, 200, 2, 32, 1, 0, 0, 0, 0, 64},
                                                             {2, 133, 2, 64, 1, 0, 0, 0, 0, 5},
                                                             {1, 150, 4, 64, 2, 0, 0, 0, 0, 70},
                                                             {1, 140, 3, 80, 1, 0, 12, 7, 1, 66},
                                                             {1, 130, 1, 96, 1, 0.2, 0, 0, 30, 1},
                                                             {1, 195, 2, 128, 1, 0, 0, 0, 3, 63},
                                                             {1, 130, 1, 192, 1, 0, 0, 0, 2, 40},
                                                             {1, 135, 2, 256, 1, 0, 0, 0, 50, 65}}) {
    ExpectAttention<__nv_bfloat16>(z, 1, 8e-3);
  }
}

// Tests the barriers between warps: under random orders one warp runs ahead of the others.
TEST_F(CudaAttention, InAnyOrderOfThreads) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Shuffle(seed);
    ExpectAttention<__nv_bfloat16>({1, 140, 2, 32, 1}, 1, 8e-3);
    ExpectAttention<float>({1, 70, 2, 8, 1}, 1, 2e-6);
  }
}

// Expects that a row's result does not depend on later tokens of the sequence.
template <typename T>
void ExpectNoFuture(const AttentionSizes& z) {
  const AttentionShape shape = KernelShapeOf(z);
  Values qkv = Random(z.Tokens() * z.Row(), 1);
  Values before, after;
  for (Values* out : {&before, &after}) {
    const DeviceArray<T> qkv_(qkv), out_(z.Tokens() * z.Width());
    const DeviceArray<float> lse(z.batch * z.heads * z.seq);
    AttentionForward(shape, qkv_.data(), out_.data(), lse.data(), nullptr);
    *out = out_.Get();
    std::fill(qkv.end() - z.Row(), qkv.end(), 1000.0);  // the last token
  }
  before.resize(before.size() - static_cast<std::size_t>(z.Width()));
  after.resize(before.size());
  EXPECT_EQ(before, after);
}

TEST_F(CudaAttention, IgnoresLaterTokens) {
  ExpectNoFuture<float>({1, 45, 2, 6, 1});
  ExpectNoFuture<__nv_bfloat16>({1, 75, 2, 32, 1});
}

// The exponentials of these scores overflow float; the running maximum keeps them in range.
TEST_F(CudaAttention, LargeScoresStayFinite) {
  ExpectAttention<float>({1, 66, 1, 16, 1}, 100, 1e-2);  // scores of about 1e4, whose own rounding is 1e-3
  const AttentionSizes z{1, 130, 1, 16, 1};
  const DeviceArray<__nv_bfloat16> qkv(Random(z.Tokens() * z.Row(), 3, -200, 200)),
      out(z.Tokens() * z.Width());
  const DeviceArray<float> lse(z.seq);
  AttentionForward(KernelShapeOf(z), qkv.data(), out.data(), lse.data(), nullptr);
  for (double v : out.Get()) ASSERT_TRUE(std::isfinite(v));
  for (double v : lse.Get()) ASSERT_TRUE(std::isfinite(v));
}

// The exponentials of all these scores are zero in float, so only differences to the maximum and to the
// log-sum-exp may be exponentiated. Float uses the plain path, bf16 the tensor cores.
template <typename T>
void ExpectScoresFarBelowZero(const AttentionSizes& z) {
  SCOPED_TRACE(fmt::format("S{} D{}, {} bytes", z.seq, z.dim, sizeof(T)));
  const AttentionShape shape = KernelShapeOf(z);
  const Values qkv = LowScoresQkv(z, 9), dout = RoundedTo<__nv_bfloat16>(Random(z.Tokens() * z.Width(), 10));
  const DeviceArray<T> qkv_(qkv), dout_(dout), out(z.Tokens() * z.Width()), dqkv(z.Tokens() * z.Row());
  const DeviceArray<float> lse(z.batch * z.heads * z.seq), delta(AttentionDeltaElements(shape));
  AttentionForward(shape, qkv_.data(), out.data(), lse.data(), nullptr);
  AttentionBackward(shape, qkv_.data(), out.data(), lse.data(), dout_.data(), dqkv.data(), delta.data(),
                    nullptr);
  ExpectLowScores(z, {out.Get(), lse.Get(), dqkv.Get()}, reference::CausalAttention(z, qkv, dout));
}

TEST_F(CudaAttention, HandlesScoresFarBelowZero) {
  for (const std::int64_t dim : {64, 128}) {
    ExpectScoresFarBelowZero<__nv_bfloat16>({1, 64, 2, dim, 1});
    ExpectScoresFarBelowZero<__nv_bfloat16>({1, 192, 1, dim, 1});
  }
  ExpectScoresFarBelowZero<__nv_bfloat16>({1, 70, 1, 20, 1});  // the plain path
  ExpectScoresFarBelowZero<float>({1, 64, 2, 64, 1});
}

// `offset`: elements by which every operand is moved from an address where packs can begin.
template <typename T>
void ExpectUnfusedAttention(const AttentionSizes& z, double magnitude, double tolerance,
                            std::int64_t offset = 0) {
  SCOPED_TRACE(fmt::format("B{} S{} N{} G{} D{}, magnitude {}, offset {}", z.batch, z.seq, z.heads,
                           z.kv_heads, z.dim, magnitude, offset));
  const AttentionShape shape = KernelShapeOf(z);
  const Values qkv = RoundedTo<T>(Random(z.Tokens() * z.Row(), 1, -magnitude, magnitude)),
               dout = RoundedTo<T>(Random(z.Tokens() * z.Width(), 2));
  const reference::Attention want = reference::CausalAttention(z, qkv, dout);
  const std::int64_t scores = z.batch * z.heads * z.seq * z.seq;
  const DeviceArray<T> qkv_(qkv, offset), dout_(dout, offset), probabilities(scores, offset),
      dscores(scores, offset), out(z.Tokens() * z.Width(), offset), dqkv(z.Tokens() * z.Row(), offset);
  const DeviceArray<float> delta(AttentionDeltaElements(shape));
  UnfusedAttentionForward(shape, qkv_.data(), probabilities.data(), out.data(), nullptr);
  const Values stored = probabilities.Get();
  ExpectRounded<T>(stored, want.probabilities, magnitude * tolerance, "probabilities");
  for (std::int64_t i = 0; i < scores; ++i) {
    if (i % z.seq <= i / z.seq % z.seq) continue;
    ASSERT_EQ(stored[static_cast<std::size_t>(i)], 0) << "of a later key";
  }
  ExpectClose(out.Get(), want.out, tolerance, "out");
  UnfusedAttentionBackward(shape, qkv_.data(), probabilities.data(), out.data(), dout_.data(), dqkv.data(),
                           dscores.data(), delta.data(), nullptr);
  ExpectClose(dqkv.Get(), want.dqkv, tolerance, "dqkv");
  EXPECT_EQ(qkv_.Get(), qkv) << "the input was changed";
  EXPECT_EQ(dout_.Get(), dout) << "the input was changed";
  EXPECT_EQ(probabilities.Get(), stored) << "the probabilities were changed";
}

// One and several tiles of rows, of columns and of inner elements, exact and partial, in packs and not;
// shared key-value heads; sequences.
const std::vector<AttentionSizes>& UnfusedSizes() {
  static const std::vector<AttentionSizes> sizes{
      {1, 1, 1, 1, 1},   {2, 5, 4, 3, 2},    {1, 8, 1, 8, 1},    {2, 16, 3, 24, 1},  {1, 63, 1, 33, 1},
      {1, 64, 2, 64, 1}, {1, 65, 2, 64, 2},  {1, 72, 2, 80, 1},  {1, 128, 2, 32, 2}, {1, 130, 1, 12, 1},
      {1, 72, 1, 96, 1}, {1, 136, 4, 16, 2}, {1, 40, 1, 128, 1}, {1, 72, 2, 200, 1}, {1, 66, 1, 256, 1}};
  return sizes;
}

TEST_F(CudaAttention, UnfusedInFloat) {
  for (const AttentionSizes& z : UnfusedSizes()) ExpectUnfusedAttention<float>(z, 1, 3e-6);
  ExpectUnfusedAttention<float>({1, 72, 2, 8, 1}, 20, 2e-5);
  ExpectUnfusedAttention<float>({1, 72, 2, 8, 1}, 1, 3e-6, 1);
}

TEST_F(CudaAttention, UnfusedInBf16) {
  for (const AttentionSizes& z : UnfusedSizes()) ExpectUnfusedAttention<__nv_bfloat16>(z, 1, 8e-3);
  ExpectUnfusedAttention<__nv_bfloat16>({1, 136, 2, 32, 1}, 4, 1e-2);
  ExpectUnfusedAttention<__nv_bfloat16>({1, 72, 2, 8, 1}, 1, 8e-3, 1);
}

TEST_F(CudaAttention, UnfusedInAnyOrderOfThreads) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Shuffle(seed);
    ExpectUnfusedAttention<__nv_bfloat16>({1, 136, 2, 72, 1}, 1, 8e-3);
    ExpectUnfusedAttention<float>({1, 72, 2, 40, 1}, 1, 3e-6);
    ExpectUnfusedAttention<float>({1, 70, 2, 37, 1}, 1, 3e-6);
  }
}

template <typename T>
void ExpectUnfusedScoresFarBelowZero(const AttentionSizes& z) {
  const AttentionShape shape = KernelShapeOf(z);
  const Values qkv = LowScoresQkv(z, 9), dout = RoundedTo<__nv_bfloat16>(Random(z.Tokens() * z.Width(), 10));
  const std::int64_t scores = z.batch * z.heads * z.seq * z.seq;
  const DeviceArray<T> qkv_(qkv), dout_(dout), out(z.Tokens() * z.Width()), dqkv(z.Tokens() * z.Row()),
      probabilities(scores), dscores(scores);
  const DeviceArray<float> delta(AttentionDeltaElements(shape));
  UnfusedAttentionForward(shape, qkv_.data(), probabilities.data(), out.data(), nullptr);
  UnfusedAttentionBackward(shape, qkv_.data(), probabilities.data(), out.data(), dout_.data(), dqkv.data(),
                           dscores.data(), delta.data(), nullptr);
  const reference::Attention want = reference::CausalAttention(z, qkv, dout);
  ExpectLowScores(z, {out.Get(), want.lse, dqkv.Get()}, want);  // it stores no log-sum-exp
}

TEST_F(CudaAttention, UnfusedHandlesExtremeScores) {
  for (const std::int64_t dim : {64, 128}) {
    ExpectUnfusedScoresFarBelowZero<__nv_bfloat16>({1, 64, 2, dim, 1});
    ExpectUnfusedScoresFarBelowZero<float>({1, 72, 2, dim, 1});
  }
  ExpectUnfusedAttention<float>({1, 66, 1, 16, 1}, 100, 1e-2);  // scores of about 1e4
}

TEST(CudaAttentionShape, IsRefusedInOneLine) {
  const auto why = [](const AttentionShape& shape) -> std::string {
    try {
      CheckAttention(shape);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(why({1, 2, 4, 2, 256}), "");
  EXPECT_EQ(why({1, 2, 4, 2, 257}),
            "attention of batch 1, sequence 2, heads 4, key-value heads 2, head dimension 257: the CUDA "
            "device supports head dimensions up to 256");
  EXPECT_EQ(
      why({1, 2, 4, 3, 8}),
      "attention of batch 1, sequence 2, heads 4, key-value heads 3, head dimension 8: the heads must be "
      "divisible by the key-value heads");
  EXPECT_NE(why({0, 2, 4, 2, 8}), "");
  EXPECT_NE(why({1 << 10, 1 << 16, 32, 2, 8}), "");
  EXPECT_EQ(why({1 << 10, 1 << 15, 32, 2, 8}), "");
}

}  // namespace
}  // namespace autocfg::cuda
