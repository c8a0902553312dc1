// Matrix products of a warp on tensor cores: bf16 operands, float sums, 16 x 8 results of depth 16 (mma.sync
// and ldmatrix, which every device that the kernels are compiled for supports). The element order of the
// fragments is specified (PTX ISA, "Matrix Fragments for mma.m16n8k16"), so that values are used where they
// are: with g = lane / 4 and t = lane % 4,
//
//   Sums   16 x 8,  float: x[0], x[1] are row g, columns 2t, 2t + 1; x[2], x[3] the same of row g + 8
//   Left   16 x 16, bf16 pairs: x[0] is row g, columns 2t, 2t + 1; x[1] of row g + 8; x[2], x[3] as these,
//                   8 columns on
//   Right  16 x 8,  bf16 pairs: x[0] is rows 2t, 2t + 1 of column g; x[1] the same 8 rows on
//
// So two Sums side by side, narrowed, are a Left. All functions are called by all lanes of a warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#if defined(AUTOCFG_CUDA_EMULATED)
#include "tests/support/cuda_emulator/mma.h"
#endif

namespace autocfg::cuda {

struct Sums {
  float x[4];
};
struct Left {
  std::uint32_t x[4];
};
// Two Rights beside each other: x[0], x[1] are columns 0 to 7; x[2], x[3] columns 8 to 15.
struct RightPair {
  std::uint32_t x[4];
};

// This lane's place in Sums.
__device__ inline int FragmentRow() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ inline int FragmentColumn() { return static_cast<int>(threadIdx.x) % 4 * 2; }

// sums[0] += a times the first 8 columns of b; sums[1] += a times the others.
__device__ inline void AddProduct(const Left& a, const RightPair& b, Sums& low, Sums& high) {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::MultiplyFragments(low.x, a.x, b.x);
  cuda_emulator::MultiplyFragments(high.x, a.x, b.x + 2);
#else
  const auto add = [&](Sums& sums, std::uint32_t b0, std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(sums.x[0]), "+f"(sums.x[1]), "+f"(sums.x[2]), "+f"(sums.x[3])
        : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0), "r"(b1));
  };
  add(low, b.x[0], b.x[1]);
  add(high, b.x[2], b.x[3]);
#endif
}

// Loads four blocks of 8 x 8. The lanes 8 i to 8 i + 7 pass the rows of block i in shared memory, 16 bytes
// each at multiples of 16. to[i] is row g, columns 2t and 2t + 1, of block i, or of its transpose.
template <bool kTransposed>
__device__ void LoadBlocks(const __nv_bfloat16* row, std::uint32_t (&to)[4]) {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::LoadFragments(row, kTransposed, to);
#else
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  }
#endif
}

// Return 16 x 16 elements at `from` in shared memory, whose rows are `ld` elements apart: as the left
// operand, as the left one transposed, as the right one, and as the right one transposed.
__device__ inline Left LoadLeft(const __nv_bfloat16* from, int ld) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Left a;
  LoadBlocks<false>(from + lane % 16 * ld + lane / 16 * 8, a.x);
  return a;
}
__device__ inline Left LoadLeftTransposed(const __nv_bfloat16* from, int ld) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Left a;
  LoadBlocks<true>(from + (lane / 16 * 8 + lane % 8) * ld + lane / 8 % 2 * 8, a.x);
  return a;
}
__device__ inline RightPair LoadRight(const __nv_bfloat16* from, int ld) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RightPair b;
  LoadBlocks<true>(from + lane % 16 * ld + lane / 16 * 8, b.x);
  return b;
}
__device__ inline RightPair LoadRightTransposed(const __nv_bfloat16* from, int ld) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RightPair b;
  LoadBlocks<false>(from + (lane / 16 * 8 + lane % 8) * ld + lane / 8 % 2 * 8, b.x);
  return b;
}

// Returns two floats as a pair of bf16, the first in the lower half.
__device__ inline std::uint32_t NarrowPair(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  std::uint32_t bits;
  std::memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

// Returns 16 x 16 sums, narrowed, as a left operand.
__device__ inline Left AsLeft(const Sums& low, const Sums& high) {
  return {{NarrowPair(low.x[0], low.x[1]), NarrowPair(low.x[2], low.x[3]), NarrowPair(high.x[0], high.x[1]),
           NarrowPair(high.x[2], high.x[3])}};
}

}  // namespace autocfg::cuda
