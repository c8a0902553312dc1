// bf16 as in CUDA's cuda_bf16.h: the upper half of a float. Conversions from float round to nearest, ties to
// even; a NaN becomes 0x7fff.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/support/cuda_emulator/vector_types.h"

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(float value);   // NOLINT: implicit, as there
  __nv_bfloat16(double value);  // NOLINT
  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }  // NOLINT

  unsigned short bits;
};
static_assert(sizeof(__nv_bfloat16) == 2);
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat162() = default;
  __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
  __nv_bfloat16 x, y;
};
using nv_bfloat162 = __nv_bfloat162;

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 result;
  result.bits = bits;
  return result;
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }

inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  if (std::isnan(x)) return __ushort_as_bfloat16(0x7fff);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  // Adds half a unit of the last kept place, minus one if that place is even: a tie then carries only if it
  // is odd.
  return __ushort_as_bfloat16(static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}
inline __nv_bfloat16 __float2bfloat16(float x) { return __float2bfloat16_rn(x); }
inline __nv_bfloat16 __double2bfloat16(double x) {
  // Rounds to odd first, so that rounding twice gives the same result as rounding once.
  float narrow = static_cast<float>(x);
  if (static_cast<double>(narrow) != x && !std::isnan(x) && (std::bit_cast<std::uint32_t>(narrow) & 1) == 0) {
    const bool away = std::fabs(static_cast<double>(narrow)) > std::fabs(x);
    narrow = std::bit_cast<float>(std::bit_cast<std::uint32_t>(narrow) + (away ? -1 : 1));
  }
  return __float2bfloat16_rn(narrow);
}
inline float __bfloat162float(__nv_bfloat16 x) { return static_cast<float>(x); }

inline __nv_bfloat16::__nv_bfloat16(float value) : bits(__float2bfloat16_rn(value).bits) {}
inline __nv_bfloat16::__nv_bfloat16(double value) : bits(__double2bfloat16(value).bits) {}

inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 x) { return __floats2bfloat162_rn(x.x, x.y); }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return __floats2bfloat162_rn(x, x); }
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {__bfloat162float(x.x), __bfloat162float(x.y)}; }
inline float __low2float(__nv_bfloat162 x) { return __bfloat162float(x.x); }
inline float __high2float(__nv_bfloat162 x) { return __bfloat162float(x.y); }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) { return x.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) { return x.y; }
