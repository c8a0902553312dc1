#include "trainer/comm/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/bf16.h"

namespace autocfg::trainer {
namespace {

TEST(Reduce, SumsAndMaxima) {
  float a[] = {1, -2, 3}, b[] = {10, 20, -30};
  ReduceInto(DType::kF32, ReduceOp::kSum, ReduceOrder::kOwnFirst, a, b, 3);
  EXPECT_EQ(a[0], 11);
  EXPECT_EQ(a[1], 18);
  EXPECT_EQ(a[2], -27);
  ReduceInto(DType::kF32, ReduceOp::kMax, ReduceOrder::kOtherFirst, a, b, 3);
  EXPECT_EQ(a[0], 11);
  EXPECT_EQ(a[1], 20);
  EXPECT_EQ(a[2], -27);
}

TEST(Reduce, IntegersWrapAround) {
  std::int32_t a[] = {std::numeric_limits<std::int32_t>::max()}, b[] = {1};
  ReduceInto(DType::kI32, ReduceOp::kSum, ReduceOrder::kOwnFirst, a, b, 1);
  EXPECT_EQ(a[0], std::numeric_limits<std::int32_t>::min());
}

TEST(Reduce, MaximumWithNanIsNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (ReduceOrder order : {ReduceOrder::kOwnFirst, ReduceOrder::kOtherFirst}) {
    double a[] = {nan, 1.0}, b[] = {1.0, nan};
    ReduceInto(DType::kF64, ReduceOp::kMax, order, a, b, 2);
    EXPECT_TRUE(std::isnan(a[0]));
    EXPECT_TRUE(std::isnan(a[1]));
  }
}

// 1 + 2^-9 rounds to 1, 1 + 3 * 2^-9 (midway) up to the even 1 + 2^-7 * 1, in steps of 2^-7; 2^127 + 2^127
// overflows.
TEST(Reduce, Bf16IsAddedInFloatAndRounded) {
  const float a[] = {1.0f, 1.0f, 1.0f, -2.5f, 0x1p127f, 0x1p-133f},
              b[] = {0x1p-9f, 0x3p-8f, 0x1p-8f, 0.5f, 0x1p127f, 0x1p-133f};
  const float sums[] = {1.0f, 1.0f + 0x1p-6f, 1.0f, -2.0f, std::numeric_limits<float>::infinity(), 0x1p-132f};
  for (int i = 0; i < 6; ++i) {
    Bf16Bits own = ToBf16(a[i]), larger = own;
    const Bf16Bits other = ToBf16(b[i]);
    ASSERT_EQ(FromBf16(own), a[i]);
    ASSERT_EQ(FromBf16(other), b[i]);
    ReduceInto(DType::kBF16, ReduceOp::kSum, ReduceOrder::kOwnFirst, &own, &other, 1);
    EXPECT_EQ(FromBf16(own), sums[i]) << a[i] << " + " << b[i];
    ReduceInto(DType::kBF16, ReduceOp::kMax, ReduceOrder::kOtherFirst, &larger, &other, 1);
    EXPECT_EQ(FromBf16(larger), std::max(a[i], b[i]));
  }
}

TEST(Reduce, Bf16NanIsPreserved) {
  for (const Bf16Bits nan : {Bf16Bits{0x7f81}, Bf16Bits{0xffff}, Bf16Bits{0x7fc0}}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      Bf16Bits own = nan;
      const Bf16Bits other = ToBf16(3.0f);
      ReduceInto(DType::kBF16, op, ReduceOrder::kOwnFirst, &own, &other, 1);
      EXPECT_TRUE(std::isnan(FromBf16(own)));
    }
  }
}

TEST(Reduce, RejectsOtherTypes) {
  char a[4] = {}, b[4] = {};
  EXPECT_THROW(ReduceInto(DType::kF16, ReduceOp::kSum, ReduceOrder::kOwnFirst, a, b, 1), CommError);
}

}  // namespace
}  // namespace autocfg::trainer
