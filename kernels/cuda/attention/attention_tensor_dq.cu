// The gradient of the queries on tensor cores. With P the probabilities: dS = P * (dout V^T - delta), dQ = dS
// K scale, with a soft cap also times its slope. As in the forward, a block owns 64 queries of one head, a
// warp owns 16 of them, and the block walks over the tiles of keys up to the diagonal, from the start of its
// window on.
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace autocfg::cuda {
namespace {

using namespace tile;

template <int kDim>
struct QueryGradientTraits {
  static constexpr int kThreads = 4 * kWarp;
  // Large head dimensions use fewer keys at a time, because dQ leaves too few registers for more scores.
  static constexpr int kKeys = kDim > 96 ? 32 : 64;
  static constexpr std::size_t kSharedBytes =
      2 * (kRows + kKeys) * kStride<kDim> * sizeof(Bf16);  // q, dout, k, v
  // Target number of blocks per multiprocessor, which limits the registers of a thread.
  static constexpr int kResident = kDim <= 64 ? 3 : kDim <= 128 ? 2 : 1;
};

template <int kDim, ScoreKind kKind>
__global__ void __launch_bounds__(QueryGradientTraits<kDim>::kThreads,
                                  BlocksThatFit(QueryGradientTraits<kDim>::kResident,
                                                QueryGradientTraits<kDim>::kSharedBytes))
    TensorQueryGradientKernel(AttentionShape shape, float scale, const Bf16* qkv, const float* lse,
                              const Bf16* dout, const float* delta, Bf16* dqkv) {
  constexpr int kThreads = QueryGradientTraits<kDim>::kThreads, kTile = QueryGradientTraits<kDim>::kKeys;
  Bf16* q = reinterpret_cast<Bf16*>(SharedMemory());
  Bf16* g = q + kRows * kStride<kDim>;
  Bf16* k = g + kRows * kStride<kDim>;
  Bf16* v = k + kTile * kStride<kDim>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;

  const Place place = PlaceOf(shape, shape.heads, true);
  const std::int64_t ld = shape.RowWidth(), kv_head = place.head / (shape.heads / shape.kv_heads),
                     start = place.batch * shape.seq_len;
  const Bf16* rows = qkv + start * ld;
  const Bf16* keys = rows + shape.FirstKey() + kv_head * shape.head_dim;
  const Bf16* values = rows + shape.FirstValue() + kv_head * shape.head_dim;
  LoadRows<kDim, kRows, kThreads>(dout + start * shape.OutWidth() + place.head * shape.head_dim,
                                  shape.OutWidth(), place.first_row, shape, g);
  const int start_key = FirstKeyTile<kKind>(shape, place.first_row, kTile);
  LoadRows<kDim, kTile, kThreads>(values, ld, start_key, shape, v);
  CommitCopies();
  LoadRows<kDim, kRows, kThreads>(rows + place.head * shape.head_dim, ld, place.first_row, shape, q);
  LoadRows<kDim, kTile, kThreads>(keys, ld, start_key, shape, k);
  CommitCopies();

  Sums dq[kDim / 8] = {};
  const int first_row = place.first_row + warp * 16, row = first_row + FragmentRow();  // and row + 8
  const ScoreForm form = ScoreFormOf<kKind>(shape, scale, place.head, kLog2E);
  // Rows beyond the sequence have probability 0 everywhere.
  float row_lse[2], row_delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool valid = row + half * 8 < shape.seq_len;
    const std::int64_t at = (place.batch * shape.heads + place.head) * shape.seq_len + row + half * 8;
    row_lse[half] = valid ? lse[at] * kLog2E : INFINITY;
    row_delta[half] = valid ? delta[at] : 0.0f;
  }

  const int end = place.first_row + kRows;
  for (int first = start_key; first < end; first += kTile) {
    Sums p[kTile / 8], ds[kTile / 8];
    WaitForCopies<1>();
    __syncthreads();
    TimesTransposed<kDim>(g + warp * 16 * kStride<kDim>, v, ds);
    WaitForCopies<0>();
    __syncthreads();
    if (first + kTile < end) LoadRows<kDim, kTile, kThreads>(values, ld, first + kTile, shape, v);
    CommitCopies();
    TimesTransposed<kDim>(q + warp * 16 * kStride<kDim>, k, p);
    const bool diagonal = first >= place.first_row;
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i / 2, column = first + n * 8 + FragmentColumn() + i % 2;
        const bool hidden = IsHidden<kKind>(diagonal, form, row + half * 8, column);
        const Score score = ScoreOf<kKind>(p[n].x[i], form, row + half * 8, column);
        const float probability = exp2f(score.value - row_lse[half]);
        ds[n].x[i] = hidden ? 0.0f : probability * (ds[n].x[i] - row_delta[half]) * score.slope;
      }
    }
    Left dscores[kTile / 16];
    AsLefts(ds, dscores);
    AddTimes<kDim>(dscores, k, dq);
    __syncthreads();
    if (first + kTile < end) LoadRows<kDim, kTile, kThreads>(keys, ld, first + kTile, shape, k);
    CommitCopies();
  }

  StoreRows(dq, scale, scale, dqkv + (start + first_row) * ld + place.head * shape.head_dim, ld,
            static_cast<int>(shape.seq_len) - first_row, static_cast<int>(shape.head_dim));
}

template <int kDim, ScoreKind kKind>
struct QueryGradient : QueryGradientTraits<kDim> {
  static constexpr auto kFunction = TensorQueryGradientKernel<kDim, kKind>;
};

}  // namespace

void TensorAttentionQueryGradient(const AttentionShape& shape, const __nv_bfloat16* qkv, const float* lse,
                                  const __nv_bfloat16* dout, const float* delta, __nv_bfloat16* dqkv,
                                  cudaStream_t stream) {
  LaunchTiles<QueryGradient>(shape, shape.heads, stream, qkv, lse, dout, delta, dqkv);
}

}  // namespace autocfg::cuda
