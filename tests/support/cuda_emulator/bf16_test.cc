// Compares the emulated bf16 with its definition: the nearest number with 8 significant bits, ties to even.
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace {

double Value(std::uint32_t bf16) { return static_cast<double>(std::bit_cast<float>(bf16 << 16)); }

// Compares the two neighbours. `x` is finite and not beyond the largest bf16.
std::uint32_t Nearest(double x) {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  const double magnitude = std::fabs(x);
  // the largest bf16 that is not above, by bisection: bf16 are ordered as their bits
  std::uint32_t low = 0, high = 0x7f80;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (Value(middle) <= magnitude ? low : high) = middle;
  }
  // Infinity counts as the number that would follow the largest.
  const double above = high == 0x7f80 ? std::ldexp(1.0, 128) : Value(high);
  const double below_by = magnitude - Value(low), above_by = above - magnitude;
  const bool up = above_by < below_by || (above_by == below_by && (low & 1) != 0);
  return sign | (up ? high : low);
}

TEST(EmulatedBf16, RoundsToNearestEven) {
  std::mt19937 random(1);
  int ties = 0;
  for (int i = 0; i < 300'000; ++i) {
    std::uint32_t bits = random();
    if (i % 3 == 0) bits = (bits & 0xffff0000u) | 0x8000u;  // half way between two
    const float x = std::bit_cast<float>(bits);
    if (!std::isfinite(x)) continue;
    ties += (bits & 0xffffu) == 0x8000u ? 1 : 0;
    ASSERT_EQ(__bfloat16_as_ushort(__float2bfloat16(x)), Nearest(static_cast<double>(x)))
        << std::hexfloat << x;
  }
  EXPECT_GT(ties, 90'000);
}

TEST(EmulatedBf16, RoundsDoublesOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    // Next to a tie of bf16, nearer than the resolution of float.
    const auto near = std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7f7fu << 16 | 0x8000u));
    const double x = static_cast<double>(near) * (1 + (static_cast<double>(random() % 5) - 2) * 1e-12);
    ASSERT_EQ(__bfloat16_as_ushort(__double2bfloat16(x)), Nearest(x)) << std::hexfloat << x;
    ASSERT_EQ(__bfloat16_as_ushort(__double2bfloat16(-x)), Nearest(-x)) << std::hexfloat << x;
  }
}

TEST(EmulatedBf16, EveryValueSurvives) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const __nv_bfloat16 x = __ushort_as_bfloat16(static_cast<unsigned short>(bits));
    if (std::isnan(__bfloat162float(x))) {
      EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16(__bfloat162float(x))), 0x7fff);
    } else {
      ASSERT_EQ(__bfloat16_as_ushort(__float2bfloat16(__bfloat162float(x))), bits);
    }
  }
  EXPECT_TRUE(std::isinf(__bfloat162float(__float2bfloat16(std::numeric_limits<float>::max()))));
}

TEST(EmulatedBf16, Pairs) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(1.5f, -2);
  EXPECT_EQ(__low2float(pair), 1.5f);
  EXPECT_EQ(__high2float(pair), -2.0f);
  const float2 back = __bfloat1622float2(pair);
  EXPECT_EQ(back.x, 1.5f);
  EXPECT_EQ(back.y, -2.0f);
}

}  // namespace
