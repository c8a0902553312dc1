// Helpers shared by the tensor core kernels of attention: tiles of 64 rows of heads in shared memory, and
// conversions between fragments and lanes. The element order of a fragment is not specified, so values are
// exchanged through `scratch`, memory of one warp.
#pragma once

#include <cuda_bf16.h>
#include <mma.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/primitives/async_copy.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/number.cuh"
#include "kernels/cuda/primitives/reduce.cuh"

namespace autocfg::cuda::tile {

namespace wmma = nvcuda::wmma;
using Bf16 = __nv_bfloat16;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, Bf16, wmma::row_major>;
using Right = wmma::fragment<wmma::matrix_b, 16, 16, 16, Bf16, wmma::row_major>;
using RightTransposed = wmma::fragment<wmma::matrix_b, 16, 16, 16, Bf16, wmma::col_major>;

inline constexpr int kRows = 64;  // rows of a tile of keys, and of a tile of queries unless stated otherwise
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// Elements from row to row of a tile of kDim columns. The 16 extra bytes place 8 adjacent rows in different
// banks.
template <int kDim>
inline constexpr int kStride = kDim + 8;
// The same for a warp's block of floats.
template <int kColumns>
inline constexpr int kScratchStride = kColumns + 8;

// Starts to copy rows [first, first + kCount) of `from`, `ld` elements apart, to a tile of kDim columns;
// zeros beyond seq_len rows and dim columns. Called by all kThreads threads.
template <int kDim, int kCount, int kThreads>
__device__ void LoadRows(const Bf16* from, std::int64_t ld, int first, const AttentionShape& shape,
                         Bf16* to) {
  constexpr int kPacks = kDim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kPacks; i += kThreads) {
    const int r = i / kPacks, d = i % kPacks * 8;
    const bool valid = first + r < shape.seq_len && d < shape.head_dim;
    CopyAsync16(to + r * kStride<kDim> + d, valid ? from + std::int64_t{first + r} * ld + d : from, valid);
  }
}

// sums[n] = the 16 rows of `left` times the transpose of rows [16 n, 16 n + 16) of `right`, both tiles of
// kDim columns.
template <int kDim, int kCount>
__device__ void TimesTransposed(const Bf16* left, const Bf16* right, Sums (&sums)[kCount]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) wmma::fill_fragment(sums[n], 0.0f);
#pragma unroll(kDim > 128 ? 2 : kDim / 16)
  for (int d = 0; d < kDim; d += 16) {
    Left a;
    wmma::load_matrix_sync(a, left + d, kStride<kDim>);
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      RightTransposed b;
      wmma::load_matrix_sync(b, right + n * 16 * kStride<kDim> + d, kStride<kDim>);
      wmma::mma_sync(sums[n], a, b, sums[n]);
    }
  }
}

// Values per lane if a warp's 16 rows of kColumns floats are distributed: two lanes per row, each with every
// other group of 4 columns.
template <int kColumns>
inline constexpr int kLaneValues = kColumns / 2;
__device__ inline int LaneRow() { return static_cast<int>(threadIdx.x) % kWarp / 2; }
// Returns the column of this lane's value i.
__device__ inline int LaneColumn(int i) {
  return (i / 4 * 2 + static_cast<int>(threadIdx.x) % 2) * 4 + i % 4;
}

// Moves values from fragments to lanes.
template <int kColumns>
__device__ void ToLanes(const Sums (&sums)[kColumns / 16], float* scratch,
                        float (&values)[kLaneValues<kColumns>]) {
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kColumns / 16; ++n) {
    wmma::store_matrix_sync(scratch + n * 16, sums[n], kScratchStride<kColumns>, wmma::mem_row_major);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kLaneValues<kColumns>; i += 4) {
    const float4 four =
        *reinterpret_cast<const float4*>(scratch + LaneRow() * kScratchStride<kColumns> + LaneColumn(i));
    values[i] = four.x, values[i + 1] = four.y, values[i + 2] = four.z, values[i + 3] = four.w;
  }
  __syncwarp();
}

// Writes the lanes' values to a bf16 block whose rows are kLd elements apart, to be read as Left. Synchronize
// before reading it.
template <int kColumns, int kLd>
__device__ void FromLanes(const float (&values)[kLaneValues<kColumns>], Bf16* block) {
  struct alignas(8) Four {
    Bf16 values[4];
  };
#pragma unroll
  for (int i = 0; i < kLaneValues<kColumns>; i += 4) {
    Four four;
#pragma unroll
    for (int j = 0; j < 4; ++j) four.values[j] = __float2bfloat16(values[i + j]);
    *reinterpret_cast<Four*>(block + LaneRow() * kLd + LaneColumn(i)) = four;
  }
}

// Multiplies each of the warp's 16 rows by its own factor, which both lanes of the row hold. The factors are
// loaded as a fragment; fragments of one type share one element order.
template <int kCount>
__device__ void ScaleRows(float factor, float* scratch, Sums (&sums)[kCount]) {
  float4* row = reinterpret_cast<float4*>(scratch + LaneRow() * 16 + threadIdx.x % 2 * 8);
  row[0] = row[1] = make_float4(factor, factor, factor, factor);
  __syncwarp();
  Sums factors;
  wmma::load_matrix_sync(factors, scratch, 16, wmma::mem_row_major);
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int i = 0; i < factors.num_elements; ++i) sums[n].x[i] *= factors.x[i];
  }
}

// Writes 16 x 16 values to rows `ld` elements apart, but only to those below `rows`.
__device__ inline void StoreBlock(const Sums& sums, float* scratch, Bf16* to, std::int64_t ld, int rows) {
  constexpr int kLd = kScratchStride<16>;
  __syncwarp();
  wmma::store_matrix_sync(scratch, sums, kLd, wmma::mem_row_major);
  __syncwarp();
  const int column = static_cast<int>(threadIdx.x) % 2 * 8;
  if (LaneRow() >= rows) return;
  Pack<Bf16> pack;
#pragma unroll
  for (int i = 0; i < 8; ++i) pack.values[i] = __float2bfloat16(scratch[LaneRow() * kLd + column + i]);
  StorePack(to + LaneRow() * ld + column, pack);
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
inline unsigned BlocksOf(const AttentionShape& shape, std::int64_t heads) {
  return CeilDiv(shape.seq_len, kRows) * static_cast<unsigned>(shape.batch * heads);
}

inline float ScoreScale(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.head_dim));
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

}  // namespace autocfg::cuda::tile
