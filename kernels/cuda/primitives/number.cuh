// Element types on the device. Kernels compute in float and read and write T: float or __nv_bfloat16.
#pragma once

#include <cuda_bf16.h>

namespace autocfg::cuda {

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}

// kPack<T> neighbouring elements as one 16-byte access. Addresses of packs are multiples of 16 bytes.
template <typename T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <typename T>
struct alignas(16) Pack {
  T values[kPack<T>];
};

template <typename T>
__device__ Pack<T> LoadPack(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <typename T>
__device__ void StorePack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

}  // namespace autocfg::cuda
