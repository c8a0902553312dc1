// The GPU ops on elements and the sums of columns, with more rows and columns than a block or a thread takes.
#include "kernels/cuda/kernels/elementwise.h"

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/kernels/sum.h"
#include "tests/conformance/ops/ops_reference.h"
#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

template <typename T>
class RowsTest : public KernelTest {};

using Types = testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(RowsTest, Types);

struct Sizes {
  std::int64_t rows, width, offset;
};
constexpr Sizes kSizes[] = {{1, 1, 0}, {300, 24, 0}, {37, 4104, 0}, {70, 515, 0}, {70, 64, 1}, {1, 10000, 0}};

TYPED_TEST(RowsTest, BiasAndResidual) {
  for (const auto& [rows, width, offset] : kSizes) {
    const std::string at = std::to_string(rows) + " x " + std::to_string(width);
    const Values y = RoundedTo<TypeParam>(Random(rows * width, 1)),
                 bias = RoundedTo<TypeParam>(Random(width, 2));
    const Values residual = RoundedTo<TypeParam>(Random(rows * width, 3));
    Values with_bias = y, with_both = y;
    for (std::size_t i = 0; i < y.size(); ++i) {
      with_bias[i] += bias[i % bias.size()];
      with_both[i] += bias[i % bias.size()] + residual[i];
    }
    const DeviceArray<TypeParam> a(y, offset), b(y, offset), bias_(bias), residual_(residual);
    BiasAdd(rows, width, a.data(), bias_.data(), nullptr);
    ExpectRounded<TypeParam>(a.Get(), with_bias, 1e-6, "bias " + at);
    BiasResidual(rows, width, b.data(), bias_.data(), residual_.data(), nullptr);
    ExpectRounded<TypeParam>(b.Get(), with_both, 1e-6, "bias and residual " + at);
  }
}

TYPED_TEST(RowsTest, SumsOfColumns) {
  for (const auto& [rows, width, offset] :
       {Sizes{1, 1, 0}, Sizes{5, 64, 1}, Sizes{3, 30000, 0}, Sizes{1001, 24, 0}, Sizes{3000, 72, 0},
        Sizes{700, 2056, 0}, Sizes{999, 131, 0}}) {
    const Values x = RoundedTo<TypeParam>(Random(rows * width, 1)), old = Random(width, 2);
    Values want = old;
    for (std::size_t i = 0; i < x.size(); ++i) want[i % want.size()] += x[i];
    const DeviceArray<TypeParam> x_(x, offset);
    const DeviceArray<float> sums(old);
    Scratch scratch;
    const std::string at = std::to_string(rows) + " x " + std::to_string(width);
    ColumnSum(rows, width, x_.data(), sums.data(), /*add=*/true, scratch, nullptr);
    ExpectRounded<float>(sums.Get(), want, 3e-6, at);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] -= old[i];
    ColumnSum(rows, width, x_.data(), sums.data(), /*add=*/false, scratch, nullptr);
    ExpectRounded<float>(sums.Get(), want, 3e-6, at + " written");
  }
}

TYPED_TEST(RowsTest, Activations) {
  for (Activation activation : {Activation::kGelu, Activation::kGeluErf, Activation::kRelu,
                                Activation::kSquaredRelu, Activation::kSwiGlu, Activation::kGeGlu}) {
    const bool gated = IsGated(activation);
    for (const auto& [rows, width, offset] : kSizes) {
      const std::string at(Name(activation));
      const std::int64_t wide = gated ? 2 * width : width;
      const Values x = RoundedTo<TypeParam>(Random(rows * wide, 1, -4, 4)),
                   bias = RoundedTo<TypeParam>(Random(wide, 2));
      const Values dy = RoundedTo<TypeParam>(Random(rows * width, 3));
      for (bool with_bias : {false, true}) {
        const DeviceArray<TypeParam> x_(x, offset), bias_(bias), y(rows * width), dy_(dy), dx(rows * wide);
        ActivationForward(activation, rows, width, x_.data(), with_bias ? bias_.data() : nullptr, y.data(),
                          nullptr);
        const Values kept = x_.Get();
        Values want_x = x, want_y(dy.size()), want_dx = x;
        for (std::size_t i = 0; i < x.size(); ++i) want_x[i] += with_bias ? bias[i % bias.size()] : 0;
        ExpectRounded<TypeParam>(kept, want_x, 1e-6, "x of " + at);
        for (std::int64_t i = 0; i < rows * width; ++i) {
          const std::int64_t gate = i / width * wide + i % width;
          const double up = gated ? kept[gate + width] : 1;
          want_y[i] = reference::ActivationValue(activation, kept[gate]) * up;
          want_dx[gate] = dy[i] * up * reference::ActivationSlope(activation, kept[gate]);
          if (gated) want_dx[gate + width] = dy[i] * reference::ActivationValue(activation, kept[gate]);
        }
        ExpectRounded<TypeParam>(y.Get(), want_y, 1e-6, "y of " + at);
        ActivationBackward(activation, rows, width, x_.data(), dy_.data(), dx.data(), nullptr);
        ExpectRounded<TypeParam>(dx.Get(), want_dx, 3e-6, "dx of " + at);
        EXPECT_EQ(x_.Get(), kept);
        if (gated) continue;
        ActivationBackward(activation, rows, width, x_.data(), dy_.data(), dy_.data(), nullptr);
        EXPECT_EQ(dy_.Get(), dx.Get()) << "in the place of dy, " << at;
      }
    }
  }
}

template <typename T>
class FillTest : public KernelTest {};
using FillTypes = testing::Types<float, double, __nv_bfloat16>;
TYPED_TEST_SUITE(FillTest, FillTypes);

TYPED_TEST(FillTest, FillsOnlyItsRange) {
  // The last size takes more than one round of all blocks.
  for (std::int64_t n : {1, 255, 256, 257, 4096 * 256 + 77}) {
    const DeviceArray<TypeParam> y(n + 1);
    Fill(n, Narrow<TypeParam>(-1.5), y.data(), nullptr);
    const Values got = y.Get();
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_EQ(got[static_cast<std::size_t>(i)], -1.5) << i << " of " << n;
    EXPECT_TRUE(std::isnan(got.back()));
  }
}

}  // namespace
}  // namespace autocfg::cuda
