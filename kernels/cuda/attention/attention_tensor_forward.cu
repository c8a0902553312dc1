// The attention forward on tensor cores (Dao 2023). A block owns 64 queries of one head; each of its 4 warps
// owns 16. The block walks over the tiles of 64 keys up to the diagonal, from the start of its window on. A
// warp keeps its scores, probabilities and 16 output rows in registers. The next keys are loaded during the
// softmax and the product with the values, the next values during the scores.
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace autocfg::cuda {
namespace {

using namespace tile;

template <int kDim>
struct ForwardTraits {
  static constexpr int kThreads = 4 * kWarp;
  static constexpr std::size_t kSharedBytes = 3 * kRows * kStride<kDim> * sizeof(Bf16);  // q, k, v
  // Target number of blocks per multiprocessor, which limits the registers of a thread.
  static constexpr int kResident = kDim <= 32 ? 4 : kDim <= 96 ? 3 : kDim <= 128 ? 2 : 1;
};

template <int kDim, ScoreKind kKind>
__global__ void __launch_bounds__(ForwardTraits<kDim>::kThreads,
                                  BlocksThatFit(ForwardTraits<kDim>::kResident,
                                                ForwardTraits<kDim>::kSharedBytes))
    TensorForwardKernel(AttentionShape shape, float scale, const Bf16* qkv, Bf16* out, float* lse) {
  constexpr int kThreads = ForwardTraits<kDim>::kThreads;
  Bf16* q = reinterpret_cast<Bf16*>(SharedMemory());
  Bf16* k = q + kRows * kStride<kDim>;
  Bf16* v = k + kRows * kStride<kDim>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;

  const Place place = PlaceOf(shape, shape.heads, true);
  const std::int64_t ld = shape.RowWidth(), kv_head = place.head / (shape.heads / shape.kv_heads);
  const Bf16* rows = qkv + place.batch * shape.seq_len * ld;
  const Bf16* keys = rows + shape.FirstKey() + kv_head * shape.head_dim;
  const Bf16* values = rows + shape.FirstValue() + kv_head * shape.head_dim;
  LoadRows<kDim, kRows, kThreads>(rows + place.head * shape.head_dim, ld, place.first_row, shape, q);
  const int start = FirstKeyTile<kKind>(shape, place.first_row, kRows);
  LoadRows<kDim, kRows, kThreads>(keys, ld, start, shape, k);
  CommitCopies();
  LoadRows<kDim, kRows, kThreads>(values, ld, start, shape, v);
  CommitCopies();

  Sums o[kDim / 8] = {};
  const int first_row = place.first_row + warp * 16, row = first_row + FragmentRow();  // and row + 8
  const ScoreForm form = ScoreFormOf<kKind>(shape, scale, place.head, kLog2E);
  // Of the scores times log2(e) of the two rows; `sum` of this lane's columns only.
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};

  for (int first = start; first <= place.first_row; first += kRows) {
    WaitForCopies<1>();
    __syncthreads();
    Sums p[kRows / 8];
    TimesTransposed<kDim>(q + warp * 16 * kStride<kDim>, k, p);
    __syncthreads();
    if (first < place.first_row) LoadRows<kDim, kRows, kThreads>(keys, ld, first + kRows, shape, k);
    CommitCopies();

    const bool diagonal = first == place.first_row;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Without a window a row sees a column of the first tile, so the maximum is finite from then on.
      float new_max = max[half];
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = p[n].x[half * 2 + i];
          const int column = first + n * 8 + FragmentColumn() + i;
          score = IsHidden<kKind>(diagonal, form, row + half * 8, column)
                      ? -INFINITY
                      : ScoreOf<kKind>(score, form, row + half * 8, column).value;
          new_max = fmaxf(new_max, score);
        }
      }
      new_max = RowMax(new_max);
      const float shift = ShiftOf<kKind>(new_max), keep = exp2f(max[half] - shift);
      max[half] = new_max;
      sum[half] *= keep;
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = p[n].x[half * 2 + i];
          score = exp2f(score - shift);
          sum[half] += score;
        }
      }
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        o[n].x[half * 2] *= keep;
        o[n].x[half * 2 + 1] *= keep;
      }
    }
    Left probabilities[kRows / 16];
    AsLefts(p, probabilities);

    WaitForCopies<1>();
    __syncthreads();
    AddTimes<kDim>(probabilities, v, o);
    __syncthreads();
    if (first < place.first_row) LoadRows<kDim, kRows, kThreads>(values, ld, first + kRows, shape, v);
    CommitCopies();
  }

  sum[0] = RowSum(sum[0]);
  sum[1] = RowSum(sum[1]);
  const int seq_len = static_cast<int>(shape.seq_len);
  StoreRows(o, 1 / sum[0], 1 / sum[1],
            out + (place.batch * shape.seq_len + first_row) * shape.OutWidth() + place.head * shape.head_dim,
            shape.OutWidth(), seq_len - first_row, static_cast<int>(shape.head_dim));
  if (FragmentColumn() != 0) return;
  float* row_lse = lse + (place.batch * shape.heads + place.head) * shape.seq_len;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + half * 8 < seq_len) row_lse[row + half * 8] = (max[half] + log2f(sum[half])) * kLn2;
  }
}

template <int kDim, ScoreKind kKind>
struct Forward : ForwardTraits<kDim> {
  static constexpr auto kFunction = TensorForwardKernel<kDim, kKind>;
};

}  // namespace

void TensorAttentionForward(const AttentionShape& shape, const __nv_bfloat16* qkv, __nv_bfloat16* out,
                            float* lse, cudaStream_t stream) {
  LaunchTiles<Forward>(shape, shape.heads, stream, qkv, out, lse);
}

}  // namespace autocfg::cuda
