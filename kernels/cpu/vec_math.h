// exp, the logistic function and the normal distribution function without branches or calls, so that loops
// over them vectorize. Pure functions.
//
// AUTOCFG_WIDE_VECTORS before a function whose loops call them compiles it also for x86-64-v4 (AVX-512); the
// build's baseline is x86-64-v3 (AVX2). The dynamic linker chooses one by the machine. What such a loop calls
// must be always_inline: anything else may stay a call, which runs the baseline's code. Do not use it for
// loops that wait for memory: they gain nothing (bench/kernels_bench.cc). Sums of the two differ in their
// last bits.
//
// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2. exp(r) = 1 + r + r^2 q(r), where q interpolates
// (exp(r) - 1 - r) / r^2 at Chebyshev nodes (truncation: relative 1e-8 for float, 2e-17 for double). n is
// rounded by adding 1.5 * 2^(mantissa bits). This leaves n in the lowest bits of the sum, from where it is
// added to the exponent of the result.
//
// Relative error: at most 2e-7 for float, 5e-16 for double. Results below the smallest normal number are 0;
// results above the largest are infinity; NaN stays NaN.
#pragma once

#include <cstdint>
#include <limits>

// Clang 14 cannot compile functions for a second level. With ThreadSanitizer, the linker's choice would call
// the sanitizer before it has begun.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define AUTOCFG_WIDE_VECTORS [[gnu::target_clones("default", "arch=x86-64-v4")]]
#else
#define AUTOCFG_WIDE_VECTORS
#endif

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
  const float above = x + std::numeric_limits<float>::infinity();  // NaN if x is NaN
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

// c tanh(x / c), and its slope at a capped value. Absolute error: at most 3e-7 c for float, 7e-16 c for
// double.
template <typename T>
[[gnu::always_inline]] inline T SoftCap(T x, T cap) {
  return cap * (T(2) * Sigmoid(T(2) * (x / cap)) - T(1));
}
template <typename T>
[[gnu::always_inline]] inline T SoftCapSlope(T capped, T cap) {
  const T share = capped / cap;
  return T(1) - share * share;
}

// Returns exp(a^2 / 2) times the standard normal probability above a >= 0. Uses a polynomial in (a - k) / (a
// + k), which maps [0, infinity) to [-1, 1], interpolated at Chebyshev nodes. Truncation error, times
// exp(-a^2 / 2): 5e-17 for double, 4e-8 for float.
[[gnu::always_inline]] inline double ScaledNormalTail(double a) {
  const double t = 1.0 - 11.0 / (a + 5.5);
  double q = -0x1.83d198a19e6c7p-30;
  q = q * t - 0x1.245a5070d3851p-30;
  q = q * t + 0x1.3740af4c29c31p-26;
  q = q * t + 0x1.5df09eaa9bdbdp-28;
  q = q * t - 0x1.4f1cdad2e3949p-23;
  q = q * t + 0x1.a5838da55857p-24;
  q = q * t + 0x1.31fbe5d924b26p-20;
  q = q * t - 0x1.5b638a2b0a1b3p-19;
  q = q * t - 0x1.500b95a616898p-18;
  q = q * t + 0x1.2df432495d9d2p-15;
  q = q * t - 0x1.c5159853dd3f7p-15;
  q = q * t - 0x1.9e5b1d91d9b6fp-13;
  q = q * t + 0x1.8608cd2c96c72p-10;
  q = q * t - 0x1.5fa30d9a92dfcp-8;
  q = q * t + 0x1.cd231aa3b7beap-7;
  q = q * t - 0x1.e7e8aa7f0303ep-6;
  q = q * t + 0x1.b39b63d53e312p-5;
  q = q * t - 0x1.501cc4ffbdeffp-4;
  q = q * t + 0x1.c692f4b3a4573p-4;
  q = q * t - 0x1.0fa16a922b77dp-3;
  q = q * t + 0x1.201fa9259b7acp-4;
  return q;
}

[[gnu::always_inline]] inline float ScaledNormalTail(float a) {
  const float t = 1.0f - 5.0f / (a + 2.5f);
  float q = -0x1.0c427cp-13f;
  q = q * t - 0x1.393cbp-12f;
  q = q * t + 0x1.945434p-11f;
  q = q * t + 0x1.7ccdb6p-9f;
  q = q * t - 0x1.4ed956p-8f;
  q = q * t - 0x1.91ff02p-6f;
  q = q * t + 0x1.cf664cp-4f;
  q = q * t - 0x1.d316c8p-3f;
  q = q * t + 0x1.217252p-3f;
  return q;
}

// The standard normal distribution at x: the probability below x, (1 + erf(x / sqrt 2)) / 2, and the density
// exp(-x^2 / 2) / sqrt(2 pi). Absolute error: at most 5e-16 for double, 2e-7 for float. NaN stays NaN.
template <typename T>
struct NormalPoint {
  T below, density;
};

template <typename T>
[[gnu::always_inline]] inline NormalPoint<T> NormalAt(T x) {
  const T e = Exp(T(-0.5) * x * x);
  const T beyond = e * ScaledNormalTail(x < T(0) ? -x : x);
  return {x < T(0) ? beyond : T(1) - beyond, e * T(0.398942280401432677939946)};
}

}  // namespace autocfg::cpu
