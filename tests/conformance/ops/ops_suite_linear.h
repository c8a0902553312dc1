// OpsSuite: matrix products, biases, residuals, scaling, and tensors that are filled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

TEST_P(OpsSuite, MatmulInEveryForm) {
  const std::array<std::array<std::int64_t, 3>, 5> sizes{
      {{1, 1, 1}, {3, 5, 7}, {64, 64, 64}, {17, 130, 33}, {1, 9, 300}}};
  for (const auto& [m, n, k] : sizes) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        for (bool accumulate : {false, true}) {
          const Values a = Random(m * k, 1), b = Random(k * n, 2);
          Values want = accumulate ? Random(m * n, 3) : reference::Zeros(m * n);
          const Tensor ta_ = ta ? dev_.Put({k, m}, a) : dev_.Put({m, k}, a);
          const Tensor tb_ = tb ? dev_.Put({n, k}, b) : dev_.Put({k, n}, b);
          // Only gradients of parameters accumulate.
          const Tensor c = !accumulate ? dev_.New({m, n})
                           : ta        ? dev_.PutGradient({m, n}, want)
                                       : dev_.PutWide({m, n}, want);
          ops_.Matmul(ta_, Transpose{ta}, tb_, Transpose{tb}, c, accumulate, stream_);
          reference::Matmul(m, n, k, a, ta, b, tb, want);
          Near(c, want, "c");
        }
      }
    }
  }
}

TEST_P(OpsSuite, BiasResidual) {
  for (const auto& [rows, width] :
       std::array<std::array<std::int64_t, 2>, 4>{{{1, 1}, {7, 5}, {8, 64}, {29, 131}}}) {
    const Values y = Random(rows * width, 1), bias = Random(width, 2), residual = Random(rows * width, 3);
    Values want = y;
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += bias[i % width] + residual[i];
    const Tensor y_ = dev_.Put({rows, width}, y);
    ops_.BiasResidual(y_, dev_.Put({width}, bias), dev_.Put({rows, width}, residual), stream_);
    Near(y_, want, "y");
  }
}

TEST_P(OpsSuite, ResidualAdd) {
  for (const auto& [rows, width] : std::array<std::array<std::int64_t, 2>, 3>{{{1, 1}, {7, 5}, {29, 131}}}) {
    const Values y = Random(rows * width, 1), residual = Random(rows * width, 2);
    Values want = y;
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += residual[i];
    const Tensor y_ = dev_.Put({rows, width}, y);
    ops_.ResidualAdd(y_, dev_.Put({rows, width}, residual), stream_);
    Near(y_, want, "y");
  }
}

// Also of elements in whole packs, which GPUs read several at a time.
TEST_P(OpsSuite, Scale) {
  for (const auto& [rows, width] :
       std::array<std::array<std::int64_t, 2>, 4>{{{1, 1}, {7, 5}, {29, 131}, {17, 64}}}) {
    for (const double factor : {0.0, 0.25, -3.0, 45.254834}) {
      const Values x = Random(rows * width, 1);
      Values want = x;
      for (double& value : want) value *= factor;
      const Tensor x_ = dev_.Put({rows, width}, x), y_ = dev_.New({rows, width});
      ops_.Scale(x_, factor, y_, stream_);
      Near(y_, want, "y");
      Near(x_, x, "x");
      ops_.Scale(x_, factor, x_, stream_);
      Near(x_, want, "in place");
    }
  }
}

// Also of columns in whole packs, at places that are and are not.
TEST_P(OpsSuite, CopiesColumns) {
  struct Case {
    std::int64_t rows, width, wide, first;
  };
  for (const auto& [rows, width, wide, first] :
       {Case{1, 1, 1, 0}, {7, 5, 9, 4}, {29, 64, 128, 64}, {29, 64, 131, 64}, {17, 32, 96, 3}}) {
    const Values narrow = Random(rows * width, 1), all = Random(rows * wide, 2);
    Values taken, put = all;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = all.begin() + r * wide + first;
      taken.insert(taken.end(), at, at + width);
      std::copy_n(narrow.begin() + r * width, width, put.begin() + r * wide + first);
    }
    const Tensor narrow_ = dev_.Put({rows, width}, narrow), all_ = dev_.Put({rows, wide}, all);
    const Tensor taken_ = dev_.New({rows, width});
    ops_.TakeColumns(all_, first, taken_, stream_);
    Near(taken_, taken, "taken");
    Near(all_, all, "read");
    ops_.PutColumns(narrow_, all_, first, stream_);
    Near(all_, put, "put");
    Near(narrow_, narrow, "read");
  }
}

TEST_P(OpsSuite, Fill) {
  for (const DType type : {dev_.type, dev_.wide_type, DType::kF64}) {
    for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 3, 4, 5}}) {
      for (double value : {-1.5, 0.0}) {
        const Tensor y = dev_.New(shape, type);
        ops_.Fill(y, value, stream_);
        EXPECT_EQ(dev_.Get(y), Values(static_cast<std::size_t>(y.Elements()), value));
      }
    }
  }
}

}  // namespace autocfg
