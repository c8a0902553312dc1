// The attention forward on tensor cores. A block owns 64 queries of one head; each of its 4 warps owns 16.
// The block walks over the tiles of 64 keys up to the diagonal. A warp keeps its 16 output rows in fragments.
// The two lanes that hold a row's scores also hold its running maximum and sum. The next keys are loaded
// during the softmax and the product with the values, the next values during the scores.
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace autocfg::cuda {
namespace {

using namespace tile;

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kScratch =
    16 * kScratchStride<kRows>;  // floats per warp: its scores, then probabilities and factors

// q, k, v, then one scratch per warp.
template <int kDim>
constexpr std::size_t kSharedBytes = 3 * kRows* kStride<kDim> * sizeof(Bf16) + kWarps* kScratch *
                                                                                   sizeof(float);

// Target number of blocks per multiprocessor, which limits the registers of a thread.
template <int kDim>
constexpr int kResident = kDim <= 64    ? 4
                          : kDim <= 80  ? 3
                          : kDim <= 96  ? 2
                          : kDim <= 128 ? 3
                                        : 1;

template <int kDim>
__global__ void __launch_bounds__(kThreads, BlocksThatFit(kResident<kDim>, kSharedBytes<kDim>))
    TensorForwardKernel(AttentionShape shape, float scale, const Bf16* qkv, Bf16* out, float* lse) {
  Bf16* q = reinterpret_cast<Bf16*>(SharedMemory());
  Bf16* k = q + kRows * kStride<kDim>;
  Bf16* v = k + kRows * kStride<kDim>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  float* scratch = reinterpret_cast<float*>(v + kRows * kStride<kDim>) + warp * kScratch;
  // Once the lanes hold their scores, the scratch holds probabilities, followed by the factors of rows.
  Bf16* probabilities = reinterpret_cast<Bf16*>(scratch);
  float* factors = scratch + 16 * kStride<kRows> / 2;

  const Place place = PlaceOf(shape, shape.heads, true);
  const std::int64_t ld = shape.RowWidth(), kv_head = place.head / (shape.heads / shape.kv_heads);
  const Bf16* rows = qkv + place.batch * shape.seq_len * ld;
  const Bf16* keys = rows + shape.FirstKey() + kv_head * shape.head_dim;
  const Bf16* values = rows + shape.FirstValue() + kv_head * shape.head_dim;
  LoadRows<kDim, kRows, kThreads>(rows + place.head * shape.head_dim, ld, place.first_row, shape, q);
  LoadRows<kDim, kRows, kThreads>(keys, ld, 0, shape, k);
  CommitCopies();
  LoadRows<kDim, kRows, kThreads>(values, ld, 0, shape, v);
  CommitCopies();

  Sums o[kDim / 16];
#pragma unroll
  for (int n = 0; n < kDim / 16; ++n) wmma::fill_fragment(o[n], 0.0f);
  const int first_row = place.first_row + warp * 16, row = first_row + LaneRow();
  const float scale_log2 = scale * kLog2E;
  float max = -INFINITY, sum = 0;  // of the scores times log2(e); `sum` of this lane's columns only

  for (int first = 0; first <= place.first_row; first += kRows) {
    float p[kLaneValues<kRows>];
    WaitForCopies<1>();
    __syncthreads();
    {
      Sums scores[kRows / 16];
      TimesTransposed<kDim>(q + warp * 16 * kStride<kDim>, k, scores);
      ToLanes<kRows>(scores, scratch, p);
    }
    __syncthreads();
    if (first < place.first_row) LoadRows<kDim, kRows, kThreads>(keys, ld, first + kRows, shape, k);
    CommitCopies();

    // The row sees a column of the first tile, so the maximum is finite from then on.
    float new_max = max;
#pragma unroll
    for (int i = 0; i < kLaneValues<kRows>; ++i) {
      p[i] = first + LaneColumn(i) <= row ? p[i] * scale_log2 : -INFINITY;
      new_max = fmaxf(new_max, p[i]);
    }
    new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffffu, new_max, 1));
    const float keep = exp2f(max - new_max);
    max = new_max;
    sum *= keep;
#pragma unroll
    for (int i = 0; i < kLaneValues<kRows>; ++i) {
      p[i] = exp2f(p[i] - max);
      sum += p[i];
    }
    FromLanes<kRows, kStride<kRows>>(p, probabilities);
    ScaleRows(keep, factors, o);

    WaitForCopies<1>();
    __syncthreads();
#pragma unroll(kDim > 128 ? 1 : 4)
    for (int c = 0; c < kRows; c += 16) {
      Left a;
      wmma::load_matrix_sync(a, probabilities + c, kStride<kRows>);
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        Right b;
        wmma::load_matrix_sync(b, v + c * kStride<kDim> + n * 16, kStride<kDim>);
        wmma::mma_sync(o[n], a, b, o[n]);
      }
    }
    __syncthreads();
    if (first < place.first_row) LoadRows<kDim, kRows, kThreads>(values, ld, first + kRows, shape, v);
    CommitCopies();
  }

  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  ScaleRows(1 / sum, factors, o);
  Bf16* to = out + (place.batch * shape.seq_len + first_row) * shape.OutWidth() + place.head * shape.head_dim;
#pragma unroll
  for (int n = 0; n < kDim / 16; ++n) {
    if (n * 16 < shape.head_dim)
      StoreBlock(o[n], scratch, to + n * 16, shape.OutWidth(), static_cast<int>(shape.seq_len) - first_row);
  }
  if (row < shape.seq_len && threadIdx.x % 2 == 0) {
    lse[(place.batch * shape.heads + place.head) * shape.seq_len + row] = (max + log2f(sum)) * kLn2;
  }
}

}  // namespace

void TensorAttentionForward(const AttentionShape& shape, const __nv_bfloat16* qkv, __nv_bfloat16* out,
                            float* lse, cudaStream_t stream) {
  WithTileColumns(shape.head_dim, [&](auto columns) {
    constexpr int kDim = columns;
    static_assert(kSharedBytes<kDim> <= kMostSharedBytes);
    AllowShared(TensorForwardKernel<kDim>, kSharedBytes<kDim>);
    Launch(TensorForwardKernel<kDim>,
           {dim3(BlocksOf(shape, shape.heads)), dim3(kThreads), kSharedBytes<kDim>}, stream, shape,
           ScoreScale(shape), qkv, out, lse);
  });
}

}  // namespace autocfg::cuda
