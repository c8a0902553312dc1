// What the tensor core kernels of attention share: tiles of rows of heads in shared memory, products of a
// warp's 16 rows with a tile, and the launch. Sums stay in registers: a row of 16 x 8n scores is held by the
// 4 lanes of a fragment's row (mma.cuh), two adjacent columns each.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/primitives/async_copy.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/mma.cuh"
#include "kernels/cuda/primitives/reduce.cuh"

namespace autocfg::cuda::tile {

using Bf16 = __nv_bfloat16;

inline constexpr int kRows = 64;  // rows of a tile of keys, and of a tile of queries unless stated otherwise
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// Elements from row to row of a tile of kDim columns. The 16 extra bytes place 8 adjacent rows in different
// banks.
template <int kDim>
inline constexpr int kStride = kDim + 8;

// Starts to copy rows [first, first + kCount) of `from`, `ld` elements apart, to a tile of kDim columns;
// zeros beyond seq_len rows and head_dim columns. Called by all kThreads threads.
template <int kDim, int kCount, int kThreads>
__device__ void LoadRows(const Bf16* from, std::int64_t ld, int first, const AttentionShape& shape,
                         Bf16* to) {
  constexpr int kPacks = kDim / 8;
#pragma unroll 2  // more takes registers that the sums need
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kPacks; i += kThreads) {
    const int r = i / kPacks, d = i % kPacks * 8;
    const bool valid = first + r < shape.seq_len && d < shape.head_dim;
    CopyAsync16(to + r * kStride<kDim> + d, valid ? from + std::int64_t{first + r} * ld + d : from, valid);
  }
}

// sums[n] = the 16 rows of `left` times the transpose of rows [8 n, 8 n + 8) of `right`, both tiles of kDim
// columns.
template <int kDim, int kCount>
__device__ void TimesTransposed(const Bf16* left, const Bf16* right, Sums (&sums)[kCount]) {
  static_assert(kCount % 2 == 0);
#pragma unroll
  for (int n = 0; n < kCount; ++n) sums[n] = {};
#pragma unroll(kDim > 128 ? 2 : kDim > 96 ? 4 : kDim / 16)
  for (int d = 0; d < kDim; d += 16) {
    const Left a = LoadLeft(left + d, kStride<kDim>);
#pragma unroll
    for (int n = 0; n < kCount; n += 2) {
      const RightPair b = LoadRightTransposed(right + n * 8 * kStride<kDim> + d, kStride<kDim>);
      AddProduct(a, b, sums[n], sums[n + 1]);
    }
  }
}

// sums[n] += `left`, 16 rows of 16 kSteps columns in registers, times columns [8 n, 8 n + 8) of the first 16
// kSteps rows of `right`, a tile of kDim columns that begins at the first of these.
template <int kDim, int kSteps, int kCount>
__device__ void AddTimes(const Left (&left)[kSteps], const Bf16* right, Sums (&sums)[kCount]) {
  static_assert(kCount % 2 == 0);
#pragma unroll
  for (int c = 0; c < kSteps; ++c) {
#pragma unroll
    for (int n = 0; n < kCount; n += 2) {
      const RightPair b = LoadRight(right + c * 16 * kStride<kDim> + n * 8, kStride<kDim>);
      AddProduct(left[c], b, sums[n], sums[n + 1]);
    }
  }
}

// Narrows 16 x 16 kSteps sums to a left operand.
template <int kSteps>
__device__ void AsLefts(const Sums (&sums)[2 * kSteps], Left (&left)[kSteps]) {
#pragma unroll
  for (int c = 0; c < kSteps; ++c) left[c] = AsLeft(sums[2 * c], sums[2 * c + 1]);
}

// Combine a value of each of the 4 lanes that hold a row.
__device__ inline float RowMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ inline float RowSum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Writes 16 rows of sums, times a factor for each of this lane's two rows, to rows `ld` elements apart: those
// below `rows`, and of them `columns`, a multiple of 8.
template <int kCount>
__device__ void StoreRows(const Sums (&sums)[kCount], float low_factor, float high_factor, Bf16* to,
                          std::int64_t ld, int rows, int columns) {
  const int row = FragmentRow();
  Bf16* low = to + row * ld + FragmentColumn();
  Bf16* high = low + 8 * ld;
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    if (n * 8 >= columns) break;
    const Sums& s = sums[n];
    const auto store = [&](Bf16* at, float first, float second) {
      *reinterpret_cast<std::uint32_t*>(at + n * 8) = NarrowPair(first, second);
    };
    if (row < rows) store(low, s.x[0] * low_factor, s.x[1] * low_factor);
    if (row + 8 < rows) store(high, s.x[2] * high_factor, s.x[3] * high_factor);
  }
}

// Position of a block. Blocks are numbered tile by tile over all heads. With `backwards`, the last tile,
// which has the most work, comes first. Positions in a sequence fit int; see CheckAttention.
struct Place {
  std::int64_t batch, head;
  int first_row;
};
__device__ inline Place PlaceOf(const AttentionShape& shape, std::int64_t heads, bool backwards) {
  const int per_tile = static_cast<int>(shape.batch * heads),
            tiles = static_cast<int>((shape.seq_len + kRows - 1) / kRows);
  const int tile = static_cast<int>(blockIdx.x) / per_tile, rest = static_cast<int>(blockIdx.x) % per_tile;
  return {rest / heads, rest % heads, (backwards ? tiles - 1 - tile : tile) * kRows};
}

// Calls `run` with the tile width for this head dimension as a constant: the smallest compiled width that is
// large enough.
template <typename Run>
void WithTileColumns(std::int64_t head_dim, Run run) {
  if (head_dim <= 32) return run(std::integral_constant<int, 32>());
  if (head_dim <= 64) return run(std::integral_constant<int, 64>());
  if (head_dim <= 80) return run(std::integral_constant<int, 80>());
  if (head_dim <= 96) return run(std::integral_constant<int, 96>());
  if (head_dim <= 128) return run(std::integral_constant<int, 128>());
  if (head_dim <= 192) return run(std::integral_constant<int, 192>());
  return run(std::integral_constant<int, 256>());
}

// Launches the kernel for this head dimension, with one block for each tile of kRows rows of each of `heads`
// heads. It gets the shape, the scale of scores and `arguments`. Kernel<kDim, kKind> has the members
// kFunction, kThreads and kSharedBytes.
template <template <int, ScoreKind> typename Kernel, typename... Arguments>
void LaunchTiles(const AttentionShape& shape, std::int64_t heads, cudaStream_t stream,
                 Arguments... arguments) {
  WithTileColumns(shape.head_dim, [&](auto columns) {
    WithScoreKind(ScoreKindOf(shape), [&]<ScoreKind kKind>() {
      using K = Kernel<columns(), kKind>;
      static_assert(K::kSharedBytes <= kMostSharedBytes);
      AllowShared(K::kFunction, K::kSharedBytes);
      const unsigned blocks = CeilDiv(shape.seq_len, kRows) * static_cast<unsigned>(shape.batch * heads);
      Launch(K::kFunction, {dim3(blocks), dim3(K::kThreads), K::kSharedBytes}, stream, shape, shape.Scale(),
             arguments...);
    });
  });
}

}  // namespace autocfg::cuda::tile
