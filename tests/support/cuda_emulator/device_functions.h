// The keywords and functions of device code. See cuda_runtime.h for what the emulation proves.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tests/support/cuda_emulator/emulator.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
// All threads are fibers of one OS thread, and blocks run in sequence.
#define __shared__ static thread_local

// Synchronization.

inline void __syncthreads() { autocfg::cuda_emulator::JoinBlock(); }
int __syncthreads_count(int predicate);
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) > 0 ? 1 : 0; }
inline int __syncthreads_and(int predicate) {
  return __syncthreads_count(predicate == 0 ? 1 : 0) == 0 ? 1 : 0;
}
void __syncwarp(unsigned mask = 0xffffffffu);
unsigned __ballot_sync(unsigned mask, int predicate);
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0 ? 1 : 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask ? 1 : 0; }

inline void __threadfence() {}
inline void __threadfence_block() {}

namespace autocfg::cuda_emulator {

template <typename T>
struct Shuffled {
  T value, result;
  int source;  // lane
};

// Gives every lane the value of its source lane, which must take part.
template <typename T>
void CombineShuffle(void* const* brought, unsigned mask) {
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    auto* mine = static_cast<Shuffled<T>*>(brought[lane]);
    if ((mask >> mine->source & 1) == 0) Fail("a shuffle reads from a lane that is not in its mask");
    mine->result = static_cast<Shuffled<T>*>(brought[mine->source])->value;
  }
}

template <typename T>
T Shuffle(unsigned mask, const char* name, T value, int source, int width) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8));
  if (width < 1 || width > 32 || (width & (width - 1)) != 0)
    Fail(std::string(name) + ": the width is not a power of two up to 32");
  Shuffled<T> mine{value, value, source};
  JoinWarp(mask, name, &mine, CombineShuffle<T>);
  return mine.result;
}

}  // namespace autocfg::cuda_emulator

// Shuffles stay within the caller's segment of `width` lanes. __shfl_sync takes the source lane modulo
// `width`; the others return the caller's own value if the source lane is outside.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = autocfg::cuda_emulator::Lane(), first = lane & ~(width - 1);
  return autocfg::cuda_emulator::Shuffle(mask, "__shfl_sync", value, first + (source & (width - 1)), width);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = autocfg::cuda_emulator::Lane(), first = lane & ~(width - 1),
            source = lane - static_cast<int>(delta);
  return autocfg::cuda_emulator::Shuffle(mask, "__shfl_up_sync", value, source < first ? lane : source,
                                         width);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = autocfg::cuda_emulator::Lane(), last = lane | (width - 1),
            source = lane + static_cast<int>(delta);
  return autocfg::cuda_emulator::Shuffle(mask, "__shfl_down_sync", value, source > last ? lane : source,
                                         width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int lane = autocfg::cuda_emulator::Lane(), last = lane | (width - 1), source = lane ^ lanes;
  return autocfg::cuda_emulator::Shuffle(mask, "__shfl_xor_sync", value, source > last ? lane : source,
                                         width);
}

// Memory.

template <typename T>
T __ldg(const T* from) {
  return *from;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
template <typename T>
void __stcs(T* to, T value) {
  *to = value;
}
template <typename T>
void __stcg(T* to, T value) {
  *to = value;
}

// Atomics return the previous value.
template <typename T>
concept AutocfgAtomic =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <AutocfgAtomic T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  *at = static_cast<T>(before + value);
  return before;
}
template <AutocfgAtomic T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  if (before < value) *at = value;
  return before;
}
template <AutocfgAtomic T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  if (value < before) *at = value;
  return before;
}
template <AutocfgAtomic T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  const T before = *at;
  *at = value;
  return before;
}
template <AutocfgAtomic T>
T atomicCAS(T* at, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  const T before = *at;
  if (before == compare) *at = value;
  return before;
}

// Numbers. Functions that libm has under the same name (expf, tanhf, erff, fmaf, sincosf, ...) are libm's.

inline float __expf(float x) { return expf(x); }
inline float __exp2f(float x) { return exp2f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline float rsqrtf(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline void sincospif(float x, float* sine, float* cosine) {
  constexpr double kPi = 3.14159265358979323846;
  *sine = static_cast<float>(sin(kPi * static_cast<double>(x)));
  *cosine = static_cast<float>(cos(kPi * static_cast<double>(x)));
}
float __fadd_rn(float x, float y);  // never fused with a product
float __fmul_rn(float x, float y);
inline float __saturatef(float x) { return x > 1 ? 1.0f : x > 0 ? x : 0.0f; }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }

inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : 1 + std::countr_zero(static_cast<unsigned>(x)); }

// Return the other operand for a NaN, as libm's fminf and fmaxf do.
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
template <typename T>
requires std::is_integral_v<T>
constexpr T min(T x, T y) { return y < x ? y : x; }
template <typename T>
requires std::is_integral_v<T>
constexpr T max(T x, T y) { return x < y ? y : x; }
