#include "trainer/comm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace autocfg {
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

TEST(Reduce, ANanWinsAMaximum) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (ReduceOrder order : {ReduceOrder::kOwnFirst, ReduceOrder::kOtherFirst}) {
    double a[] = {nan, 1.0}, b[] = {1.0, nan};
    ReduceInto(DType::kF64, ReduceOp::kMax, order, a, b, 2);
    EXPECT_TRUE(std::isnan(a[0]));
    EXPECT_TRUE(std::isnan(a[1]));
  }
}

TEST(Reduce, OtherTypesAreRefused) {
  char a[4] = {}, b[4] = {};
  EXPECT_THROW(ReduceInto(DType::kBF16, ReduceOp::kSum, ReduceOrder::kOwnFirst, a, b, 1), CommError);
}

}  // namespace
}  // namespace autocfg
