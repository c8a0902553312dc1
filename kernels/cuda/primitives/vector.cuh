// Vector loads and stores of adjacent elements, and the launch shape of kernels over [rows, columns]. N is
// the number of elements of an access: kPack<T> if rows and addresses are multiples of 16 bytes, else 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/number.cuh"
#include "kernels/cuda/primitives/reduce.cuh"

namespace autocfg::cuda {

template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T values[N];
};

// Packs two elements per register; the compiler would use one register for each.
template <int N>
requires(N % 2 == 0) struct alignas(2 * N < 16 ? 2 * N : 16) Vec<__nv_bfloat16, N> {
  unsigned words[N / 2];  // the low half holds the first of two
};

template <int N, typename T>
__device__ inline Vec<T, N> Load(const T* from) {
  return *reinterpret_cast<const Vec<T, N>*>(from);
}
// Uses explicit 16-byte stores where possible. Otherwise the compiler splits stores at addresses it cannot
// track into four of 4 bytes.
template <int N, typename T>
__device__ inline void Store(T* to, const Vec<T, N>& vec) {
#if !defined(AUTOCFG_CUDA_EMULATED)
  if constexpr (sizeof(vec) % 16 == 0) {
    unsigned words[sizeof(vec) / 4];
    memcpy(words, &vec, sizeof vec);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(vec) / 16); ++i) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(reinterpret_cast<uint4*>(to) + i),
                   "r"(words[4 * i]), "r"(words[4 * i + 1]), "r"(words[4 * i + 2]), "r"(words[4 * i + 3])
                   : "memory");
    }
    return;
  }
#endif
  *reinterpret_cast<Vec<T, N>*>(to) = vec;
}

// Converts the elements to floats.
template <typename T, int N>
__device__ inline void Unpack(const Vec<T, N>& vec, float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
      x[i] = __uint_as_float(i % 2 == 0 ? vec.words[i / 2] << 16 : vec.words[i / 2] & 0xffff0000u);
    } else {
      x[i] = ToFloat(vec.values[i]);
    }
  }
}

// Rounds floats to the nearest elements.
template <typename T, int N>
__device__ inline Vec<T, N> PackOf(const float (&x)[N]) {
  Vec<T, N> vec;
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(x[i], x[i + 1]);
      memcpy(&vec.words[i / 2], &two, sizeof two);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) vec.values[i] = FromFloat<T>(x[i]);
  }
  return vec;
}

// Store N float sums, or add them to memory, rounded to its type. The address is a multiple of 16 bytes if N
// is not 1.
template <typename S, int N>
__device__ inline void StoreSums(S* to, const float (&sums)[N]) {
  Store(to, PackOf<S>(sums));
}
template <typename S, int N>
__device__ inline void AddSums(S* to, const float (&sums)[N]) {
  float old[N];
  Unpack(Load<N>(to), old);
#pragma unroll
  for (int i = 0; i < N; ++i) old[i] += sums[i];
  StoreSums(to, old);
}

// Returns whether rows of `width` elements that start at these addresses can be accessed in packs.
template <typename T>
bool InPacks(std::int64_t width, std::initializer_list<const void*> addresses) {
  return width % kPack<T> == 0 && std::all_of(addresses.begin(), addresses.end(), [](const void* p) {
           return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
         });
}

// Runs body.operator()<N>() with the widest access that InPacks allows.
template <typename T, typename Body>
void WithPacks(std::int64_t width, std::initializer_list<const void*> addresses, Body body) {
  if (InPacks<T>(width, addresses)) {
    body.template operator()<kPack<T>>();
  } else {
    body.template operator()<1>();
  }
}

constexpr int kTileThreads = 256;
constexpr int kTileRows = 4;  // a thread has their loads in flight at once

// Returns a grid in which each thread keeps to one of `columns` (of N elements each) and steps through the
// rows, following ColumnOf, FirstRow and RowStep.
inline LaunchShape TileShape(std::int64_t rows, std::int64_t columns) {
  const unsigned tiles = CeilDiv(columns, kTileThreads);
  const unsigned x = CeilDiv(CeilDiv(columns, tiles), kWarp) * kWarp, y = kTileThreads / x;
  const std::int64_t groups = CeilDiv(rows, static_cast<std::int64_t>(y) * kTileRows);
  return {dim3(tiles, static_cast<unsigned>(std::min<std::int64_t>(groups, 65535))), dim3(x, y)};
}

__device__ inline std::int64_t ColumnOf() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t FirstRow() { return std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; }
__device__ inline std::int64_t RowStep() { return std::int64_t{gridDim.y} * blockDim.y; }

}  // namespace autocfg::cuda
