// Tests each implementation of attention on the GPU by forcing it. The suite of the ops only tests the one
// that is chosen for a shape.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/cuda/cudnn/cudnn_attention_graph.h"
#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/cuda/ops/attention_choice.h"
#include "tests/conformance/ops/attention_low_scores.h"
#include "tests/conformance/ops/ops_reference.h"
#include "tests/gpu/gpu_under_test.h"

namespace autocfg::cuda {
namespace {

using Bf16 = __nv_bfloat16;
using reference::AttentionSizes;
using Results = reference::Attention;

AttentionShape ShapeOf(const AttentionSizes& z) {
  return {z.batch, z.seq,         z.heads,      z.kv_heads, z.dim,
          z.scale, z.alibi_heads, z.first_head, z.softcap,  z.window};
}

// Random scores with enough spread that probabilities differ.
Values RandomBf16(std::int64_t n, unsigned seed) {
  Values values = Random(n, seed, -2, 2);
  for (double& v : values) v = RoundTo(DType::kBF16, v);
  return values;
}

// Runs one attention implementation on the first GPU.
class Implementation {
 public:
  explicit Implementation(AttentionForced forced) : dev_(GpuBF16()), choice_(forced) {}

  OnDevice& dev() { return dev_; }
  // Returns why the implementation does not compute the shape; empty if it does.
  std::string Refusal(const AttentionShape& shape) {
    try {
      choice_.ImplementationOf<Bf16>(shape);
      return "";
    } catch (const DeviceError& error) {
      return error.what();
    }
  }
  void Forward(const AttentionShape& shape, const Tensor& qkv, const Tensor& out, const Tensor& lse) {
    choice_.Forward(shape, qkv.As<const Bf16>(), out.As<Bf16>(), lse.As<float>(), scratch_,
                    HandleOf(*dev_.stream));
  }
  // The scratch memory is full of NaN, so that an implementation that expects clear sums shows it.
  void Backward(const AttentionShape& shape, const Tensor& qkv, const Tensor& out, const Tensor& lse,
                const Tensor& dout, const Tensor& dqkv) {
    if (const std::int64_t bytes = scratch_.bytes(); bytes > 0) {
      EXPECT_EQ(
          cudaMemsetAsync(scratch_.Get(bytes), 0xff, static_cast<std::size_t>(bytes), HandleOf(*dev_.stream)),
          cudaSuccess);
    }
    choice_.Backward(shape, qkv.As<const Bf16>(), out.As<const Bf16>(), lse.As<const float>(),
                     dout.As<const Bf16>(), dqkv.As<Bf16>(), scratch_, HandleOf(*dev_.stream));
  }
  Results Run(const AttentionSizes& z, const Values& qkv, const Values& dout) {
    const AttentionShape shape = ShapeOf(z);
    const Tensor qkv_ = dev_.Put({z.Tokens(), z.Row()}, qkv), dout_ = dev_.Put({z.Tokens(), z.Width()}, dout);
    const Tensor out = dev_.New({z.Tokens(), z.Width()}), dqkv = dev_.New({z.Tokens(), z.Row()}),
                 lse = dev_.NewWide({z.batch, z.heads, z.seq});
    Forward(shape, qkv_, out, lse);
    Backward(shape, qkv_, out, lse, dout_, dqkv);
    EXPECT_EQ(dev_.Get(qkv_), qkv) << "the input was changed";
    return {dev_.Get(out), dev_.Get(lse), dev_.Get(dqkv)};
  }

 private:
  OnDevice dev_;
  AttentionChoice choice_;
  Scratch scratch_;
};

// Expects differences of at most `tolerance` times the largest magnitude of `want`, among `width` columns of
// each row from `first` on.
void ExpectClose(const Values& got, const Values& want, std::int64_t row, std::int64_t first,
                 std::int64_t width, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const auto inside = [&](std::size_t i) {
    const std::int64_t column = static_cast<std::int64_t>(i) % row;
    return column >= first && column < first + width;
  };
  double scale = 1e-3;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (inside(i)) scale = std::max(scale, std::abs(want[i]));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!inside(i)) continue;
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= tolerance * scale)
        << what << '[' << i << "] is " << got[i] << ", want " << want[i] << " within " << tolerance * scale;
  }
}

// Probabilities and the gradients of scores and of each head's keys and values are rounded to bf16 in
// between. Each part is compared relative to its own magnitude.
void ExpectSame(const AttentionSizes& z, const Results& got, const Results& want) {
  constexpr double kTolerance = 2e-2;
  const std::int64_t q = z.Width(), kv = z.kv_heads * z.dim;
  ExpectClose(got.out, want.out, q, 0, q, kTolerance, "out");
  ExpectClose(got.lse, want.lse, z.seq, 0, z.seq, 1e-4, "lse");
  ExpectClose(got.dqkv, want.dqkv, z.Row(), 0, q, kTolerance, "dq");
  ExpectClose(got.dqkv, want.dqkv, z.Row(), q, kv, kTolerance, "dk");
  ExpectClose(got.dqkv, want.dqkv, z.Row(), q + kv, kv, kTolerance, "dv");
}

bool IsKeptFromCudnn(Implementation& cudnn, const AttentionSizes& z) {
  const std::string fault = CudnnAttentionFault(Cudnn().get_version(), ShapeOf(z));
  if (fault.empty()) return false;
  const std::string refusal = cudnn.Refusal(ShapeOf(z));
  EXPECT_NE(refusal.find(fault), std::string::npos) << refusal;
  return true;
}

class GpuAttention : public ::testing::TestWithParam<AttentionForced> {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
    attention_.emplace(GetParam());
  }
  // Returns whether this cuDNN must refuse the shape because of a known fault.
  bool IsFaulty(const AttentionSizes& z) {
    return GetParam() == AttentionForced::kCudnn && IsKeptFromCudnn(*attention_, z);
  }
  std::optional<Implementation> attention_;
};

TEST_P(GpuAttention, MatchesTheReference) {
  for (const AttentionSizes& z : std::vector<AttentionSizes>{{2, 300, 4, 64, 4},
                                                             {1, 520, 2, 64, 1},
                                                             {1, 257, 6, 128, 2},
                                                             {1, 64, 2, 128, 2},
                                                             {1, 200, 3, 80, 1},
                                                             {2, 129, 4, 96, 2},
                                                             {1, 1, 2, 64, 1},
                                                             {1, 130, 2, 192, 1},
                                                             {1, 130, 2, 256, 2},
                                                             {1, 130, 2, 72, 1},
                                                             {2, 129, 4, 104, 2},
                                                             // scales, and ALiBi
                                                             {1, 257, 4, 64, 2, 0.3},
                                                             {2, 300, 4, 64, 4, 0, 4},
                                                             {1, 520, 6, 128, 2, 0.05, 12, 6},
                                                             {1, 130, 2, 256, 2, 0, 71, 60},
                                                             {1, 200, 3, 20, 1, 0, 3}}) {
    SCOPED_TRACE(fmt::format("B{} S{} N{} G{} D{} scale {}, slopes from {} of {}", z.batch, z.seq, z.heads,
                             z.kv_heads, z.dim, z.scale, z.first_head, z.alibi_heads));
    if (IsFaulty(z)) continue;
    const std::string refusal = attention_->Refusal(ShapeOf(z));
    if (z.alibi_heads > 0 && GetParam() == AttentionForced::kCudnn) {
      EXPECT_NE(refusal.find(kNoAlibi), std::string::npos) << refusal;
      continue;
    }
    // cuDNN computes the gradient of wide heads only on some GPUs.
    if (!refusal.empty() && GetParam() == AttentionForced::kCudnn && z.dim > 128) continue;
    ASSERT_EQ(refusal, "");
    const Values qkv = RandomBf16(z.Tokens() * z.Row(), 1), dout = RandomBf16(z.Tokens() * z.Width(), 2);
    const reference::Attention want = reference::CausalAttention(z, qkv, dout);
    ExpectSame(z, attention_->Run(z, qkv, dout), want);
  }
}

// No sum of exponentials can represent such scores.
TEST_P(GpuAttention, HandlesScoresFarBelowZero) {
  for (const std::int64_t seq : {64, 192, 1000, 1216}) {
    for (const std::int64_t dim : {64, 128}) {
      const AttentionSizes z{1, seq, 1, dim, 1};
      SCOPED_TRACE(fmt::format("S{} D{}", seq, dim));
      if (IsFaulty(z)) continue;
      const Values qkv = LowScoresQkv(z, 9), dout = RandomBf16(z.Tokens() * z.Width(), 10);
      ExpectLowScores(z, attention_->Run(z, qkv, dout), reference::CausalAttention(z, qkv, dout));
    }
  }
}

// Races between warps would change bits. cuDNN sums the gradient of q in no fixed order.
TEST_P(GpuAttention, IsDeterministic) {
  const AttentionSizes z{2, 1100, 8, 128, 2};
  if (IsFaulty(z)) return;
  const Values qkv = RandomBf16(z.Tokens() * z.Row(), 3), dout = RandomBf16(z.Tokens() * z.Width(), 4);
  const Results first = attention_->Run(z, qkv, dout);
  for (int again = 0; again < 4; ++again) {
    const Results next = attention_->Run(z, qkv, dout);
    EXPECT_TRUE(next.out == first.out && next.lse == first.lse);
    if (GetParam() == AttentionForced::kOwn) {
      EXPECT_TRUE(next.dqkv == first.dqkv);
    }
    ExpectSame(z, next, first);
  }
}

// qkv and the output have more than 2^31 elements. The last of many sequences must have the same result as
// alone.
TEST_P(GpuAttention, SupportsIndicesBeyond32Bits) {
  const AttentionSizes one{1, 512, 32, 128, 1};
  AttentionSizes all = one;
  all.batch = (std::int64_t{1} << 31) / (one.Tokens() * one.Width()) + 32;
  if (IsFaulty(all)) return;
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  constexpr std::size_t kNeeded = std::size_t{44} << 30;  // includes cuDNN's sums and per-head gradients
  if (free < kNeeded)
    GTEST_SKIP() << "needs " << kNeeded << " bytes of the GPU's memory; " << free << " are free";

  const Values qkv = RandomBf16(one.Tokens() * one.Row(), 5),
               dout = RandomBf16(one.Tokens() * one.Width(), 6);
  const Results want = attention_->Run(one, qkv, dout);

  OnDevice& dev = attention_->dev();
  std::vector<Tensor> taken;
  const auto take = [&](DType type, std::int64_t rows, std::int64_t columns, int byte) {
    Tensor t;
    t.dtype = type;
    t.shape[0] = rows, t.shape[1] = columns, t.rank = 2;
    t.data = dev.device->Allocate(t.Bytes());
    EXPECT_EQ(cudaMemset(t.data, byte, static_cast<std::size_t>(t.Bytes())), cudaSuccess);
    taken.push_back(t);
    return t;
  };
  // Returns the rows of the last sequence.
  const auto last = [&](const Tensor& t, std::int64_t rows) {
    Tensor part = t;
    part.shape[0] = rows;
    part.data = t.As<char>() + (t.Bytes() - part.Bytes());
    return part;
  };
  const Tensor qkv_ = take(DType::kBF16, all.Tokens(), all.Row(), 0),
               dout_ = take(DType::kBF16, all.Tokens(), all.Width(), 0),
               out = take(DType::kBF16, all.Tokens(), all.Width(), 0xff),
               dqkv = take(DType::kBF16, all.Tokens(), all.Row(), 0xff),
               lse = take(DType::kF32, all.batch * all.heads, all.seq, 0xff);
  dev.Set(last(qkv_, one.Tokens()), qkv);
  dev.Set(last(dout_, one.Tokens()), dout);
  attention_->Forward(ShapeOf(all), qkv_, out, lse);
  attention_->Backward(ShapeOf(all), qkv_, out, lse, dout_, dqkv);
  ExpectSame(
      one,
      {dev.Get(last(out, one.Tokens())), dev.Get(last(lse, one.heads)), dev.Get(last(dqkv, one.Tokens()))},
      want);
  for (const Tensor& t : taken) dev.device->Free(t.data, t.Bytes());
}

std::string NameOf(const ::testing::TestParamInfo<AttentionForced>& info) {
  return info.param == AttentionForced::kOwn ? "own" : "cudnn";
}
INSTANTIATE_TEST_SUITE_P(Forced, GpuAttention,
                         ::testing::Values(AttentionForced::kOwn, AttentionForced::kCudnn), NameOf);

// Tests model sizes, for which a reference would take minutes.
TEST(GpuAttentionImplementations, AgreeAtModelSizes) {
  if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  Implementation own(AttentionForced::kOwn), cudnn(AttentionForced::kCudnn);
  for (const AttentionSizes& z : std::vector<AttentionSizes>{{1, 4096, 8, 128, 2}, {4, 1024, 25, 64, 25}}) {
    SCOPED_TRACE(fmt::format("B{} S{} N{} G{} D{}", z.batch, z.seq, z.heads, z.kv_heads, z.dim));
    if (IsKeptFromCudnn(cudnn, z)) continue;
    const Values qkv = RandomBf16(z.Tokens() * z.Row(), 7), dout = RandomBf16(z.Tokens() * z.Width(), 8);
    ExpectSame(z, cudnn.Run(z, qkv, dout), own.Run(z, qkv, dout));
  }
}

}  // namespace
}  // namespace autocfg::cuda
