// The gradients of keys and values on tensor cores. With P the probabilities: dV = P^T dout, dS = P * (dout
// V^T - delta), with a soft cap times its slope, dK = dS^T Q scale. A block owns 64 keys of one key-value
// head. It walks over the tiles of queries from the diagonal on, up to the end of its window, for all heads
// that share the key-value head. A warp owns 16 keys. It computes transposed scores, so that they are the
// left operands of both products. The columns of dK and dV of wide heads are split over two warps, both of
// which compute the scores; otherwise these columns would not fit in registers.
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace autocfg::cuda {
namespace {

using namespace tile;

template <int kDim>
struct KeyValueGradientTraits {
  static constexpr int kSplit = kDim > 128 ? 2 : 1;  // warps that share 16 keys
  static constexpr int kThreads = kRows / 16 * kSplit * kWarp;
  // Wide heads use fewer queries at a time, because shared memory could not hold more.
  static constexpr int kQueries = kDim > 192 ? 32 : 64;
  // Queries of a tile whose scores a warp holds at once.
  static constexpr int kAtOnce = kDim <= 32 ? 64 : 32;
  // k, v; q, dout; log-sum-exp and delta of the queries.
  static constexpr std::size_t kSharedBytes =
      2 * (kRows + kQueries) * kStride<kDim> * sizeof(Bf16) + 2 * kQueries * sizeof(float);
  // Target number of blocks per multiprocessor, which limits the registers of a thread.
  static constexpr int kResident = kDim <= 128 ? 2 : 1;
};

template <int kDim, ScoreKind kKind>
__global__ void __launch_bounds__(KeyValueGradientTraits<kDim>::kThreads,
                                  BlocksThatFit(KeyValueGradientTraits<kDim>::kResident,
                                                KeyValueGradientTraits<kDim>::kSharedBytes))
    TensorKeyValueGradientKernel(AttentionShape shape, float scale, const Bf16* qkv, const float* lse,
                                 const Bf16* dout, const float* delta, Bf16* dqkv) {
  using Traits = KeyValueGradientTraits<kDim>;
  constexpr int kThreads = Traits::kThreads, kTile = Traits::kQueries, kAtOnce = Traits::kAtOnce,
                kColumns = kDim / Traits::kSplit;
  static_assert(2 * kTile <= kThreads && kTile % kAtOnce == 0 && kColumns % 16 == 0);
  Bf16* k = reinterpret_cast<Bf16*>(SharedMemory());
  Bf16* v = k + kRows * kStride<kDim>;
  Bf16* q = v + kRows * kStride<kDim>;
  Bf16* g = q + kTile * kStride<kDim>;
  float* statistics = reinterpret_cast<float*>(g + kTile * kStride<kDim>);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const int own = warp % (kRows / 16) * 16, first_column = warp / (kRows / 16) * kColumns;

  const Place place = PlaceOf(shape, shape.kv_heads, false);
  const int group = static_cast<int>(shape.heads / shape.kv_heads);
  const std::int64_t ld = shape.RowWidth(), start = place.batch * shape.seq_len;
  const std::int64_t key = shape.FirstKey() + place.head * shape.head_dim,
                     value = shape.FirstValue() + place.head * shape.head_dim;
  const Bf16* rows = qkv + start * ld;

  // A step is one tile of queries of one head.
  const int skipped = place.first_row / kTile,
            per_head =
                static_cast<int>((LastQueryEnd<kKind>(shape, place.first_row + kRows) + kTile - 1) / kTile) -
                skipped;
  const int steps = per_head * group;
  const auto head_of = [&](int step) { return place.head * group + step / per_head; };
  const auto first_of = [&](int step) { return (skipped + step % per_head) * kTile; };
  const auto load_q = [&](int step) {
    LoadRows<kDim, kTile, kThreads>(rows + head_of(step) * shape.head_dim, ld, first_of(step), shape, q);
  };
  const auto load_g = [&](int step) {
    LoadRows<kDim, kTile, kThreads>(dout + start * shape.OutWidth() + head_of(step) * shape.head_dim,
                                    shape.OutWidth(), first_of(step), shape, g);
  };
  // The first kTile threads load log-sum-exps, infinite beyond the sequence so that probabilities are 0
  // there. The next kTile threads load deltas.
  const auto statistic_of = [&](int step) {
    const int query = first_of(step) + thread % kTile;
    const std::int64_t at = (place.batch * shape.heads + head_of(step)) * shape.seq_len + query;
    if (thread < kTile) return query < shape.seq_len ? lse[at] * kLog2E : INFINITY;
    return thread < 2 * kTile && query < shape.seq_len ? delta[at] : 0.0f;
  };

  LoadRows<kDim, kRows, kThreads>(rows + value, ld, place.first_row, shape, v);
  load_g(0);
  CommitCopies();
  LoadRows<kDim, kRows, kThreads>(rows + key, ld, place.first_row, shape, k);
  load_q(0);
  CommitCopies();
  float statistic = statistic_of(0);

  Sums dk[kColumns / 8] = {}, dv[kColumns / 8] = {};
  const int row = place.first_row + own + FragmentRow();  // this lane's keys: row and row + 8

  for (int step = 0; step < steps; ++step) {
    if (thread < 2 * kTile) statistics[thread] = statistic;
    const int first = first_of(step);
    const bool more = step + 1 < steps;
    const bool diagonal = first < place.first_row + kRows;
    const ScoreForm form = ScoreFormOf<kKind>(shape, scale, head_of(step), kLog2E);
#pragma unroll 1
    for (int at = 0; at < kTile; at += kAtOnce) {
      Sums p[kAtOnce / 8], ds[kAtOnce / 8];
      if (at == 0) {
        WaitForCopies<1>();
        __syncthreads();
      }
      TimesTransposed<kDim>(v + own * kStride<kDim>, g + at * kStride<kDim>, ds);
      if (at == 0) {
        WaitForCopies<0>();
        __syncthreads();
      }
      TimesTransposed<kDim>(k + own * kStride<kDim>, q + at * kStride<kDim>, p);
#pragma unroll
      for (int n = 0; n < kAtOnce / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = at + n * 8 + FragmentColumn() + i % 2;
          const bool hidden = IsHidden<kKind>(diagonal, form, first + column, row + i / 2 * 8);
          const Score score = ScoreOf<kKind>(p[n].x[i], form, first + column, row + i / 2 * 8);
          const float probability = hidden ? 0.0f : exp2f(score.value - statistics[column]);
          p[n].x[i] = probability;
          ds[n].x[i] = probability * (ds[n].x[i] - statistics[kTile + column]) * score.slope;
        }
      }
      Left probabilities[kAtOnce / 16], dscores[kAtOnce / 16];
      AsLefts(p, probabilities);
      AsLefts(ds, dscores);
      AddTimes<kDim>(probabilities, g + at * kStride<kDim> + first_column, dv);
      if (at + kAtOnce == kTile) {
        __syncthreads();
        if (more) load_g(step + 1);
        CommitCopies();
        if (more) statistic = statistic_of(step + 1);
      }
      AddTimes<kDim>(dscores, q + at * kStride<kDim> + first_column, dk);
    }
    __syncthreads();
    if (more) load_q(step + 1);
    CommitCopies();
  }

  const int first_row = place.first_row + own, rows_left = static_cast<int>(shape.seq_len) - first_row,
            columns_left = static_cast<int>(shape.head_dim) - first_column;
  Bf16* to = dqkv + (start + first_row) * ld + first_column;
  StoreRows(dk, scale, scale, to + key, ld, rows_left, columns_left);
  StoreRows(dv, 1, 1, to + value, ld, rows_left, columns_left);
}

template <int kDim, ScoreKind kKind>
struct KeyValueGradient : KeyValueGradientTraits<kDim> {
  static constexpr auto kFunction = TensorKeyValueGradientKernel<kDim, kKind>;
};

}  // namespace

void TensorAttentionKeyValueGradient(const AttentionShape& shape, const __nv_bfloat16* qkv, const float* lse,
                                     const __nv_bfloat16* dout, const float* delta, __nv_bfloat16* dqkv,
                                     cudaStream_t stream) {
  LaunchTiles<KeyValueGradient>(shape, shape.kv_heads, stream, qkv, lse, dout, delta, dqkv);
}

}  // namespace autocfg::cuda
