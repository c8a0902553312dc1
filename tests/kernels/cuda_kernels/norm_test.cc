// LayerNorm and RMSNorm of the GPU at the widths where its kernels change: a warp or a block per row, one to
// four packs per thread, rows that do not fit in registers, rows and addresses that are not packs.
#include "kernels/cuda/kernels/norm.h"

#include <gtest/gtest.h>

#include "tests/conformance/ops/ops_reference.h"
#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

struct Want {
  Values y, mean, rstd, dx, dgamma, dbeta;
};

// Computes the norm by the formulas in double precision; tests/conformance checks these against the Jacobian
// at small widths. Without beta: RMSNorm.
Want NormOf(std::int64_t rows, std::int64_t width, const Values& dy, const Values& x, const Values& gamma,
            const Values* beta) {
  Want want{x, {}, {}, x, reference::Zeros(width), reference::Zeros(width)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const double *x_ = x.data() + row * width, *dy_ = dy.data() + row * width;
    double mean = 0, squares = 0, mean_g = 0, mean_gn = 0;
    for (std::int64_t i = 0; i < width && beta != nullptr; ++i) mean += x_[i] / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i)
      squares += (x_[i] - mean) * (x_[i] - mean) / static_cast<double>(width);
    const double rstd = 1 / std::sqrt(squares + 1e-5);
    for (std::int64_t i = 0; i < width; ++i) {
      const double n = (x_[i] - mean) * rstd, g = dy_[i] * gamma[i];
      want.y[row * width + i] = n * gamma[i] + (beta != nullptr ? (*beta)[i] : 0);
      want.dgamma[i] += dy_[i] * n;
      want.dbeta[i] += dy_[i];
      mean_g += beta != nullptr ? g / static_cast<double>(width) : 0;
      mean_gn += g * n / static_cast<double>(width);
    }
    for (std::int64_t i = 0; i < width; ++i) {
      want.dx[row * width + i] = rstd * (dy_[i] * gamma[i] - mean_g - (x_[i] - mean) * rstd * mean_gn);
    }
    want.mean.push_back(mean);
    want.rstd.push_back(rstd);
  }
  return want;
}

Values Sum(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

template <typename T>
class NormTest : public KernelTest {
 protected:
  static void Check(std::int64_t rows, std::int64_t width, std::int64_t offset, bool backward = true) {
    const std::string at =
        " of " + std::to_string(rows) + " x " + std::to_string(width) + " from " + std::to_string(offset);
    const Values x = RoundedTo<T>(Random(rows * width, 1, -1, 3)), gamma = RoundedTo<T>(Random(width, 2)),
                 beta = RoundedTo<T>(Random(width, 3));
    const Values dy = RoundedTo<T>(Random(rows * width, 4)), old_dx = RoundedTo<T>(Random(rows * width, 5));
    const Values old_dgamma = Random(width, 6), old_dbeta = Random(width, 7);
    const DeviceArray<T> x_(x, offset), gamma_(gamma), beta_(beta), y(rows * width, offset), dy_(dy, offset);
    const DeviceArray<float> mean(rows), rstd(rows);
    Scratch scratch;
    {
      const Want want = NormOf(rows, width, dy, x, gamma, &beta);
      LayerNormForward(rows, width, x_.data(), gamma_.data(), beta_.data(), 1e-5f, y.data(), mean.data(),
                       rstd.data(), nullptr);
      ExpectRounded<T>(y.Get(), want.y, 1e-5, "y" + at);
      ExpectRounded<float>(mean.Get(), want.mean, 3e-6, "mean" + at);
      ExpectRounded<float>(rstd.Get(), want.rstd, 1e-5, "rstd" + at);
      if (backward) {
        const DeviceArray<T> dx(rows * width, offset);
        const DeviceArray<float> dgamma(old_dgamma), dbeta(old_dbeta);
        LayerNormBackward(rows, width, dy_.data(), x_.data(), gamma_.data(), mean.data(), rstd.data(),
                          dx.data(), false, dgamma.data(), dbeta.data(), /*accumulate=*/true, scratch,
                          nullptr);
        ExpectRounded<T>(dx.Get(), want.dx, 1e-5, "dx" + at);
        ExpectRounded<float>(dgamma.Get(), Sum(old_dgamma, want.dgamma), 1e-5, "dgamma" + at);
        ExpectRounded<float>(dbeta.Get(), Sum(old_dbeta, want.dbeta), 1e-5, "dbeta" + at);
      }
    }
    {
      const Want want = NormOf(rows, width, dy, x, gamma, nullptr);
      RmsNormForward(rows, width, x_.data(), gamma_.data(), 1e-5f, y.data(), rstd.data(), nullptr);
      ExpectRounded<T>(y.Get(), want.y, 1e-5, "RMSNorm's y" + at);
      ExpectRounded<float>(rstd.Get(), want.rstd, 1e-5, "RMSNorm's rstd" + at);
      if (!backward) return;
      const DeviceArray<T> dx(old_dx, offset);
      const DeviceArray<float> dgamma(old_dgamma);
      RmsNormBackward(rows, width, dy_.data(), x_.data(), gamma_.data(), rstd.data(), dx.data(), true,
                      dgamma.data(), /*accumulate=*/false, scratch, nullptr);
      ExpectRounded<T>(dx.Get(), Sum(old_dx, want.dx), 1e-5, "RMSNorm's dx, added," + at);
      ExpectRounded<float>(dgamma.Get(), want.dgamma, 1e-5, "RMSNorm's dgamma, written," + at);
    }
  }
};

using Types = testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(NormTest, Types);

TYPED_TEST(NormTest, InPacks) {
  constexpr std::int64_t kPack = 16 / sizeof(TypeParam);
  // Numbers of packs at which the forward changes, then those of the backward.
  for (std::int64_t packs : {1, 32, 33, 65, 129, 257}) this->Check(23, packs * kPack, 0);
  for (std::int64_t packs : {512, 513, 1025, 1537}) this->Check(5, packs * kPack, 0);
}

TYPED_TEST(NormTest, RowsThatExceedRegisters) {
  constexpr std::int64_t kPack = 16 / sizeof(TypeParam);
  this->Check(3, 2049 * kPack, 0);                      // the backward's limit
  this->Check(3, 4097 * kPack, 0, /*backward=*/false);  // the forward's limit
}

TYPED_TEST(NormTest, ElementByElement) {
  for (std::int64_t width : {1, 7, 511, 2047, 2049}) this->Check(13, width, 0);
  this->Check(6, 64, 1);
}

}  // namespace
}  // namespace autocfg::cuda
