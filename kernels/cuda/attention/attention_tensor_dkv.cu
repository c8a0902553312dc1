// The gradients of keys and values on tensor cores. With P the probabilities: dV = P^T dout, dS = P * (dout
// V^T - delta), dK = dS^T Q / sqrt(D).
// A block owns 64 keys of one key-value head. It walks over the tiles of queries from the diagonal on, for
// all heads that share the key-value head, and computes transposed scores. Its 8 warps form 4 pairs of 16
// keys each. In a pair, each warp takes half of the queries of a tile, then half of the columns of dK and dV,
// so that these fit in registers.
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace autocfg::cuda {
namespace {

using namespace tile;

constexpr int kPairs = kRows / 16;
constexpr int kThreads = 2 * kPairs * kWarp;

// Wide heads use fewer queries at a time, because shared memory could not hold more.
template <int kDim>
constexpr int kQueries = kDim > 192 ? 32 : 64;
template <int kDim>
constexpr int kScratch =
    16 * kScratchStride<kQueries<kDim> / 2>;  // floats per warp: scores, then blocks of results

// k, v; q, dout; transposed probabilities and gradients of scores; log-sum-exp and delta of the queries; one
// scratch per warp.
template <int kDim>
constexpr std::size_t kSharedBytes = 2 * (kRows + kQueries<kDim>)*kStride<kDim> * sizeof(Bf16) +
                                     2 * kRows* kStride<kQueries<kDim>> * sizeof(Bf16) +
                                     2 * kQueries<kDim> * sizeof(float) +
                                     2 * kPairs* kScratch<kDim> * sizeof(float);

// sums[i] += the 16 rows of `left` times the columns [16 n, 16 n + 16) of `right`, where n = half + 2 i, over
// kDepth rows of `right`.
template <int kDim, int kDepth, int kCount>
__device__ void AddProduct(const Bf16* left, const Bf16* right, int half, Sums (&sums)[kCount]) {
#pragma unroll(kDim > 96 ? 1 : 4)
  for (int c = 0; c < kDepth; c += 16) {
    Left a;
    wmma::load_matrix_sync(a, left + c, kStride<kDepth>);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int n = half + 2 * i;
      if (n >= kDim / 16) continue;
      Right b;
      wmma::load_matrix_sync(b, right + c * kStride<kDim> + n * 16, kStride<kDim>);
      wmma::mma_sync(sums[i], a, b, sums[i]);
    }
  }
}

// Target number of blocks per multiprocessor, which limits the registers of a thread.
template <int kDim>
constexpr int kResident = kDim <= 128 ? 2 : 1;

template <int kDim>
__global__ void __launch_bounds__(kThreads, BlocksThatFit(kResident<kDim>, kSharedBytes<kDim>))
    TensorKeyValueGradientKernel(AttentionShape shape, float scale, const Bf16* qkv, const float* lse,
                                 const Bf16* dout, const float* delta, Bf16* dqkv) {
  constexpr int kTile = kQueries<kDim>, kHalf = kTile / 2, kBlocks = (kDim / 16 + 1) / 2;
  Bf16* k = reinterpret_cast<Bf16*>(SharedMemory());
  Bf16* v = k + kRows * kStride<kDim>;
  Bf16* q = v + kRows * kStride<kDim>;
  Bf16* g = q + kTile * kStride<kDim>;
  Bf16* probabilities = g + kTile * kStride<kDim>;
  Bf16* dscores = probabilities + kRows * kStride<kTile>;
  float* statistics = reinterpret_cast<float*>(dscores + kRows * kStride<kTile>);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, pair = warp % kPairs,
            half = warp / kPairs;
  float* scratch = statistics + 2 * kTile + warp * kScratch<kDim>;

  const Place place = PlaceOf(shape, shape.kv_heads, false);
  const int group = static_cast<int>(shape.heads / shape.kv_heads);
  const std::int64_t ld = shape.RowWidth(), start = place.batch * shape.seq_len;
  const std::int64_t key = shape.FirstKey() + place.head * shape.head_dim,
                     value = shape.FirstValue() + place.head * shape.head_dim;
  const Bf16* rows = qkv + start * ld;

  // A step is one tile of queries of one head.
  const int skipped = place.first_row / kTile,
            per_head = static_cast<int>((shape.seq_len + kTile - 1) / kTile) - skipped;
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

  Sums dk[kBlocks], dv[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    wmma::fill_fragment(dk[i], 0.0f);
    wmma::fill_fragment(dv[i], 0.0f);
  }
  const int row = place.first_row + pair * 16 + LaneRow();
  const float scale_log2 = scale * kLog2E;

  for (int step = 0; step < steps; ++step) {
    float p[kLaneValues<kHalf>], ds[kLaneValues<kHalf>];
    Sums products[kHalf / 16];
    if (thread < 2 * kTile) statistics[thread] = statistic;
    WaitForCopies<1>();
    __syncthreads();
    TimesTransposed<kDim>(v + pair * 16 * kStride<kDim>, g + half * kHalf * kStride<kDim>, products);
    ToLanes<kHalf>(products, scratch, ds);
    WaitForCopies<0>();
    __syncthreads();
    TimesTransposed<kDim>(k + pair * 16 * kStride<kDim>, q + half * kHalf * kStride<kDim>, products);
    ToLanes<kHalf>(products, scratch, p);
    const int first = first_of(step);
#pragma unroll
    for (int i = 0; i < kLaneValues<kHalf>; ++i) {
      const int column = half * kHalf + LaneColumn(i);
      p[i] = row <= first + column ? exp2f(p[i] * scale_log2 - statistics[column]) : 0.0f;
      ds[i] = p[i] * (ds[i] - statistics[kTile + column]);
    }
    FromLanes<kHalf, kStride<kTile>>(p, probabilities + pair * 16 * kStride<kTile> + half * kHalf);
    FromLanes<kHalf, kStride<kTile>>(ds, dscores + pair * 16 * kStride<kTile> + half * kHalf);
    __syncthreads();
    AddProduct<kDim, kTile>(probabilities + pair * 16 * kStride<kTile>, g, half, dv);
    __syncthreads();
    const bool more = step + 1 < steps;
    if (more) load_g(step + 1);
    CommitCopies();
    if (more) statistic = statistic_of(step + 1);
    AddProduct<kDim, kTile>(dscores + pair * 16 * kStride<kTile>, q, half, dk);
    __syncthreads();
    if (more) load_q(step + 1);
    CommitCopies();
  }

  const int first_row = place.first_row + pair * 16;
  Bf16* to = dqkv + (start + first_row) * ld;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    const int n = half + 2 * i;
    if (n * 16 >= shape.head_dim) continue;
#pragma unroll
    for (int j = 0; j < dk[i].num_elements; ++j) dk[i].x[j] *= scale;
    StoreBlock(dk[i], scratch, to + key + n * 16, ld, static_cast<int>(shape.seq_len) - first_row);
    StoreBlock(dv[i], scratch, to + value + n * 16, ld, static_cast<int>(shape.seq_len) - first_row);
  }
}

}  // namespace

void TensorAttentionKeyValueGradient(const AttentionShape& shape, const __nv_bfloat16* qkv, const float* lse,
                                     const __nv_bfloat16* dout, const float* delta, __nv_bfloat16* dqkv,
                                     cudaStream_t stream) {
  WithTileColumns(shape.head_dim, [&](auto columns) {
    constexpr int kDim = columns;
    static_assert(kSharedBytes<kDim> <= kMostSharedBytes);
    AllowShared(TensorKeyValueGradientKernel<kDim>, kSharedBytes<kDim>);
    Launch(TensorKeyValueGradientKernel<kDim>,
           {dim3(BlocksOf(shape, shape.kv_heads)), dim3(kThreads), kSharedBytes<kDim>}, stream, shape,
           ScoreScale(shape), qkv, lse, dout, delta, dqkv);
  });
}

}  // namespace autocfg::cuda
