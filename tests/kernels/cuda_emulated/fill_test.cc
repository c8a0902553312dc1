// Tests the GPU's fill kernel on the emulator.
#include "kernels/cuda/kernels/fill.h"

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cmath>

namespace autocfg::cuda {
namespace {

template <typename T>
class FillTest : public testing::Test {};
using FillTypes = testing::Types<float, double, __nv_bfloat16>;
TYPED_TEST_SUITE(FillTest, FillTypes);

TYPED_TEST(FillTest, FillsOnlyItsRange) {
  cuda_emulator::SetOrder(cuda_emulator::Order::kCompared);
  // The last size takes more than one round of all blocks.
  for (std::int64_t n : {1, 255, 256, 257, 4096 * 256 + 77}) {
    TypeParam* y = nullptr;
    ASSERT_EQ(cudaMalloc(&y, static_cast<std::size_t>(n + 1) * sizeof(TypeParam)), cudaSuccess);
    Fill(n, static_cast<TypeParam>(-1.5f), y, nullptr);
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(static_cast<double>(y[i]), -1.5) << i << " of " << n;
    EXPECT_TRUE(std::isnan(static_cast<double>(y[n])));
    EXPECT_EQ(cudaFree(y), cudaSuccess);
  }
  cuda_emulator::SetOrder(cuda_emulator::Order::kForward);
}

}  // namespace
}  // namespace autocfg::cuda
