// exp and the logistic function without branches or calls, so that a loop over them becomes vector code. Pure
// functions.
//
// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2. exp(r) = 1 + r + r^2 q(r), where q interpolates
// (exp(r) - 1 - r) / r^2 at Chebyshev nodes (truncation: relative 1e-8 for float, 2e-17 for double). n is
// rounded by adding 1.5 * 2^(mantissa bits), which leaves it in the lowest bits of the sum, from where it is
// added to the exponent of the result.
//
// Relative error: at most 2e-7 for float, 5e-16 for double. Results below the smallest normal number are 0;
// above the largest, infinity; NaN stays NaN.
#pragma once

#include <cstdint>
#include <limits>

namespace autocfg::cpu {

[[gnu::always_inline]] inline float Exp(float x) {
  constexpr float kRound = 0x1.8p23f;
  constexpr float kLn2High = 0x1.62ep-1f, kLn2Low = 0x1.0bfbe8p-15f;
  const float t = x * 1.44269504f + kRound;
  const float n = t - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float q = 0x1.6d1110p-10f;
  q = q * r + 0x1.120b6ep-7f;
  q = q * r + 0x1.55551ap-5f;
  q = q * r + 0x1.5554dcp-3f;
  q = q * r + 0.5f;
  const float p = (q * (r * r) + r) + 1.0f;
  const auto bits = __builtin_bit_cast(std::uint32_t, p) + (__builtin_bit_cast(std::uint32_t, t) << 23);
  float y = __builtin_bit_cast(float, bits);
  const float above = x + std::numeric_limits<float>::infinity();  // NaN where x is
  y = x < -87.3365f ? 0.0f : y;
  return x <= 88.7228f ? y : above;
}

[[gnu::always_inline]] inline double Exp(double x) {
  constexpr double kRound = 0x1.8p52;
  constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double t = x * 1.4426950408889634 + kRound;
  const double n = t - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double q = 0x1.af38a9b0ec855p-26;
  q = q * r + 0x1.289185613a3d6p-22;
  q = q * r + 0x1.71de0dae63bb3p-19;
  q = q * r + 0x1.a019b90d2ae7ap-16;
  q = q * r + 0x1.a01a01a7c41d5p-13;
  q = q * r + 0x1.6c16c1788bd90p-10;
  q = q * r + 0x1.11111111109b3p-7;
  q = q * r + 0x1.5555555553d63p-5;
  q = q * r + 0x1.5555555555556p-3;
  q = q * r + 0.5;
  const double p = (q * (r * r) + r) + 1.0;
  const auto bits = __builtin_bit_cast(std::uint64_t, p) + (__builtin_bit_cast(std::uint64_t, t) << 52);
  double y = __builtin_bit_cast(double, bits);
  const double above = x + std::numeric_limits<double>::infinity();
  y = x < -708.396 ? 0.0 : y;
  return x <= 709.782 ? y : above;
}

// 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2.
template <typename T>
[[gnu::always_inline]] inline T Sigmoid(T x) {
  return T(1) / (T(1) + Exp(-x));
}

}  // namespace autocfg::cpu
