// The gradient of the queries on tensor cores. With P the probabilities: dS = P * (dout V^T - delta), dQ = dS
// K / sqrt(D). As in the forward, a block owns 64 queries of one head, a warp owns 16 of them, and the block
// walks over the tiles of keys up to the diagonal.
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace autocfg::cuda {
namespace {

using namespace tile;

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;

// Large head dimensions use fewer keys at a time, because dQ leaves too few registers for more scores.
template <int kDim>
constexpr int kKeys = kDim > 128 ? 32 : 64;
template <int kDim>
constexpr int kScratch =
    16 *
    kScratchStride<kKeys<kDim>>;  // floats per warp: scores, then their gradients in bf16, then blocks of dQ

// q, dout, k, v, then one scratch per warp.
template <int kDim>
constexpr std::size_t kSharedBytes =
    2 * (kRows + kKeys<kDim>)*kStride<kDim> * sizeof(Bf16) + kWarps* kScratch<kDim> * sizeof(float);

// Target number of blocks per multiprocessor, which limits the registers of a thread.
template <int kDim>
constexpr int kResident = kDim <= 32    ? 3
                          : kDim <= 128 ? 2
                                        : 1;

template <int kDim>
__global__ void __launch_bounds__(kThreads, BlocksThatFit(kResident<kDim>, kSharedBytes<kDim>))
    TensorQueryGradientKernel(AttentionShape shape, float scale, const Bf16* qkv, const float* lse,
                              const Bf16* dout, const float* delta, Bf16* dqkv) {
  constexpr int kTile = kKeys<kDim>;
  Bf16* q = reinterpret_cast<Bf16*>(SharedMemory());
  Bf16* g = q + kRows * kStride<kDim>;
  Bf16* k = g + kRows * kStride<kDim>;
  Bf16* v = k + kTile * kStride<kDim>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  float* scratch = reinterpret_cast<float*>(v + kTile * kStride<kDim>) + warp * kScratch<kDim>;
  Bf16* dscores = reinterpret_cast<Bf16*>(scratch);

  const Place place = PlaceOf(shape, shape.heads, true);
  const std::int64_t ld = shape.RowWidth(), kv_head = place.head / (shape.heads / shape.kv_heads),
                     start = place.batch * shape.seq_len;
  const Bf16* rows = qkv + start * ld;
  const Bf16* keys = rows + shape.FirstKey() + kv_head * shape.head_dim;
  const Bf16* values = rows + shape.FirstValue() + kv_head * shape.head_dim;
  LoadRows<kDim, kRows, kThreads>(dout + start * shape.OutWidth() + place.head * shape.head_dim,
                                  shape.OutWidth(), place.first_row, shape, g);
  LoadRows<kDim, kTile, kThreads>(values, ld, 0, shape, v);
  CommitCopies();
  LoadRows<kDim, kRows, kThreads>(rows + place.head * shape.head_dim, ld, place.first_row, shape, q);
  LoadRows<kDim, kTile, kThreads>(keys, ld, 0, shape, k);
  CommitCopies();

  Sums dq[kDim / 16];
#pragma unroll
  for (int n = 0; n < kDim / 16; ++n) wmma::fill_fragment(dq[n], 0.0f);
  const int first_row = place.first_row + warp * 16, row = first_row + LaneRow();
  const std::int64_t statistic = (place.batch * shape.heads + place.head) * shape.seq_len + row;
  // Rows beyond the sequence have probability 0 everywhere.
  const float row_lse = row < shape.seq_len ? lse[statistic] * kLog2E : INFINITY,
              row_delta = row < shape.seq_len ? delta[statistic] : 0.0f;
  const float scale_log2 = scale * kLog2E;

  const int end = place.first_row + kRows;
  for (int first = 0; first < end; first += kTile) {
    float p[kLaneValues<kTile>], ds[kLaneValues<kTile>];
    Sums products[kTile / 16];
    WaitForCopies<1>();
    __syncthreads();
    TimesTransposed<kDim>(g + warp * 16 * kStride<kDim>, v, products);
    ToLanes<kTile>(products, scratch, ds);
    WaitForCopies<0>();
    __syncthreads();
    if (first + kTile < end) LoadRows<kDim, kTile, kThreads>(values, ld, first + kTile, shape, v);
    CommitCopies();
    TimesTransposed<kDim>(q + warp * 16 * kStride<kDim>, k, products);
    ToLanes<kTile>(products, scratch, p);
#pragma unroll
    for (int i = 0; i < kLaneValues<kTile>; ++i) {
      ds[i] = first + LaneColumn(i) <= row ? exp2f(p[i] * scale_log2 - row_lse) * (ds[i] - row_delta) : 0.0f;
    }
    FromLanes<kTile, kStride<kTile>>(ds, dscores);
    __syncwarp();
#pragma unroll(kDim > 128 ? 1 : 4)
    for (int c = 0; c < kTile; c += 16) {
      Left a;
      wmma::load_matrix_sync(a, dscores + c, kStride<kTile>);
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        Right b;
        wmma::load_matrix_sync(b, k + c * kStride<kDim> + n * 16, kStride<kDim>);
        wmma::mma_sync(dq[n], a, b, dq[n]);
      }
    }
    __syncthreads();
    if (first + kTile < end) LoadRows<kDim, kTile, kThreads>(keys, ld, first + kTile, shape, k);
    CommitCopies();
  }

  Bf16* to = dqkv + (start + first_row) * ld + place.head * shape.head_dim;
#pragma unroll
  for (int n = 0; n < kDim / 16; ++n) {
#pragma unroll
    for (int i = 0; i < dq[n].num_elements; ++i) dq[n].x[i] *= scale;
    if (n * 16 < shape.head_dim)
      StoreBlock(dq[n], scratch, to + n * 16, ld, static_cast<int>(shape.seq_len) - first_row);
  }
}

}  // namespace

void TensorAttentionQueryGradient(const AttentionShape& shape, const __nv_bfloat16* qkv, const float* lse,
                                  const __nv_bfloat16* dout, const float* delta, __nv_bfloat16* dqkv,
                                  cudaStream_t stream) {
  WithTileColumns(shape.head_dim, [&](auto columns) {
    constexpr int kDim = columns;
    static_assert(kSharedBytes<kDim> <= kMostSharedBytes);
    AllowShared(TensorQueryGradientKernel<kDim>, kSharedBytes<kDim>);
    Launch(TensorQueryGradientKernel<kDim>,
           {dim3(BlocksOf(shape, shape.heads)), dim3(kThreads), kSharedBytes<kDim>}, stream, shape,
           ScoreScale(shape), qkv, lse, dout, delta, dqkv);
  });
}

}  // namespace autocfg::cuda
