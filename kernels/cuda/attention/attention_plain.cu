// Attention by plain arithmetic in float, for any head dimension up to kMostHeadDim. Each warp owns one row:
// a query row in the forward and in the gradient of q, a key row in the gradients of k and v. The block walks
// over tiles of 32 rows of the other side, held in shared memory. In each tile, a lane first computes one
// row's score; then the lanes compute the columns of the result.
#include <type_traits>

#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/number.cuh"
#include "kernels/cuda/primitives/reduce.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kRows = 8;  // rows per block, one per warp
constexpr int kTile = kWarp;
constexpr int kThreads = kRows * kWarp;
constexpr int kColumns = static_cast<int>(kMostHeadDim) / kWarp;  // columns that a lane owns, at most

// Position of the block's own rows. Rows with the most work come first, so that the last blocks to start are
// short.
struct Own {
  std::int64_t batch, head, first_row;
};
__device__ Own OwnRows(const AttentionShape& shape, std::int64_t heads, bool long_first) {
  const std::int64_t per_tile = shape.batch * heads, tiles = (shape.seq_len + kRows - 1) / kRows;
  const std::int64_t tile = blockIdx.x / per_tile, rest = blockIdx.x % per_tile;
  return {rest / heads, rest % heads, (long_first ? tiles - 1 - tile : tile) * kRows};
}

// Stride of rows of head_dim elements. One extra float makes the lanes' rows start in different banks.
__device__ int Stride(const AttentionShape& shape) { return static_cast<int>(shape.head_dim) + 1; }

// Loads tile[r] = row first + r of `from`, whose rows are `ld` elements apart; zeros from seq_len on. Called
// by the whole block.
template <typename T>
__device__ void LoadTile(const AttentionShape& shape, const T* from, std::int64_t ld, std::int64_t first,
                         int rows, float* tile) {
  const int dim = static_cast<int>(shape.head_dim);
  for (int i = static_cast<int>(threadIdx.x); i < rows * dim; i += kThreads) {
    const int r = i / dim, d = i % dim;
    tile[r * Stride(shape) + d] = first + r < shape.seq_len ? ToFloat(from[(first + r) * ld + d]) : 0.0f;
  }
}

__device__ float Dot(const AttentionShape& shape, const float* a, const float* b) {
  float sum = 0;
  for (int d = 0; d < static_cast<int>(shape.head_dim); ++d) sum += a[d] * b[d];
  return sum;
}

// sums[i] += sum over the tile's rows r of weight[r] * tile[r][lane + 32 i].
__device__ void AddRows(const AttentionShape& shape, const float* weight, const float* tile, int lane,
                        float (&sums)[kColumns]) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int d = lane + i * kWarp;
    if (d >= shape.head_dim) continue;
    for (int r = 0; r < kTile; ++r) sums[i] += weight[r] * tile[r * Stride(shape) + d];
  }
}

template <typename T>
__device__ void StoreRow(const AttentionShape& shape, const float (&sums)[kColumns], float factor, int lane,
                         T* row) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int d = lane + i * kWarp;
    if (d < shape.head_dim) row[d] = FromFloat<T>(sums[i] * factor);
  }
}

// Layout of shared memory, in floats: two tiles of the other side, the own rows of two operands, and two
// weights for each pair of an own row and a tile row.
struct Shared {
  float *tile_a, *tile_b, *own_a, *own_b, *weight_a, *weight_b;
};
std::size_t SharedBytes(const AttentionShape& shape) {
  return static_cast<std::size_t>(2 * (kTile + kRows) * (shape.head_dim + 1) + 2 * kRows * kTile) *
         sizeof(float);
}
__device__ Shared SharedOf(const AttentionShape& shape, int warp) {
  float* at = reinterpret_cast<float*>(SharedMemory());
  Shared s;
  s.tile_a = at;
  s.tile_b = s.tile_a + kTile * Stride(shape);
  s.own_a = s.tile_b + kTile * Stride(shape);
  s.own_b = s.own_a + kRows * Stride(shape);
  s.weight_a = s.own_b + kRows * Stride(shape) + warp * kTile;
  s.weight_b = s.weight_a + kRows * kTile;
  return s;
}

template <typename T, ScoreKind kKind>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(AttentionShape shape, float scale, const T* qkv, T* out, float* lse) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const Own own = OwnRows(shape, shape.heads, true);
  const Shared shared = SharedOf(shape, warp);
  const std::int64_t ld = shape.RowWidth(), kv_head = own.head / (shape.heads / shape.kv_heads);
  const T* rows = qkv + own.batch * shape.seq_len * ld;
  const T* k = rows + shape.FirstKey() + kv_head * shape.head_dim;
  const T* v = rows + shape.FirstValue() + kv_head * shape.head_dim;
  const std::int64_t row = own.first_row + warp;
  LoadTile(shape, rows + own.head * shape.head_dim, ld, own.first_row, kRows, shared.own_a);
  const float* q = shared.own_a + warp * Stride(shape);

  float max = -INFINITY, sum = 0, sums[kColumns] = {};
  const ScoreForm form = ScoreFormOf<kKind>(shape, scale, own.head, 1);
  const int query = static_cast<int>(row);
  for (int first = FirstKeyTile<kKind>(shape, own.first_row, kTile);
       first < own.first_row + kRows && first < shape.seq_len; first += kTile) {
    __syncthreads();
    LoadTile(shape, k, ld, first, kTile, shared.tile_a);
    LoadTile(shape, v, ld, first, kTile, shared.tile_b);
    __syncthreads();
    // Without a window every row sees column 0, so the maximum is finite from the first tile on.
    const int key = first + lane;
    const float score =
        IsHidden<kKind>(true, form, query, key)
            ? -INFINITY
            : ScoreOf<kKind>(Dot(shape, q, shared.tile_a + lane * Stride(shape)), form, query, key).value;
    const float new_max = fmaxf(max, WarpReduce(score, Max())), shift = ShiftOf<kKind>(new_max);
    const float p = expf(score - shift), keep = expf(max - shift);
    sum = sum * keep + WarpReduce(p, Sum());
    max = new_max;
    shared.weight_a[lane] = p;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] *= keep;
    AddRows(shape, shared.weight_a, shared.tile_b, lane, sums);
  }
  if (row >= shape.seq_len) return;
  StoreRow(shape, sums, 1 / sum, lane,
           out + (own.batch * shape.seq_len + row) * shape.OutWidth() + own.head * shape.head_dim);
  if (lane == 0) lse[(own.batch * shape.heads + own.head) * shape.seq_len + row] = max + logf(sum);
}

// With P the probabilities: dS = P * (dout V^T - delta) * scale, dQ = dS K.
template <typename T, ScoreKind kKind>
__global__ void __launch_bounds__(kThreads)
    QueryGradientKernel(AttentionShape shape, float scale, const T* qkv, const float* lse, const T* dout,
                        const float* delta, T* dqkv) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const Own own = OwnRows(shape, shape.heads, true);
  const Shared shared = SharedOf(shape, warp);
  const std::int64_t ld = shape.RowWidth(), kv_head = own.head / (shape.heads / shape.kv_heads);
  const std::int64_t start = own.batch * shape.seq_len, row = own.first_row + warp;
  const T* rows = qkv + start * ld;
  const T* k = rows + shape.FirstKey() + kv_head * shape.head_dim;
  const T* v = rows + shape.FirstValue() + kv_head * shape.head_dim;
  LoadTile(shape, rows + own.head * shape.head_dim, ld, own.first_row, kRows, shared.own_a);
  LoadTile(shape, dout + start * shape.OutWidth() + own.head * shape.head_dim, shape.OutWidth(),
           own.first_row, kRows, shared.own_b);
  const float* q = shared.own_a + warp * Stride(shape);
  const float* g = shared.own_b + warp * Stride(shape);
  const std::int64_t statistic = (own.batch * shape.heads + own.head) * shape.seq_len + row;
  const float row_lse = row < shape.seq_len ? lse[statistic] : 0.0f,
              row_delta = row < shape.seq_len ? delta[statistic] : 0.0f;

  float sums[kColumns] = {};
  const ScoreForm form = ScoreFormOf<kKind>(shape, scale, own.head, 1);
  const int query = static_cast<int>(row);
  for (std::int64_t first = FirstKeyTile<kKind>(shape, own.first_row, kTile);
       first < own.first_row + kRows && first < shape.seq_len; first += kTile) {
    __syncthreads();
    LoadTile(shape, k, ld, first, kTile, shared.tile_a);
    LoadTile(shape, v, ld, first, kTile, shared.tile_b);
    __syncthreads();
    float ds = 0;
    const int key = static_cast<int>(first) + lane;
    if (row < shape.seq_len && !IsHidden<kKind>(true, form, query, key)) {
      const Score score =
          ScoreOf<kKind>(Dot(shape, q, shared.tile_a + lane * Stride(shape)), form, query, key);
      const float p = expf(score.value - row_lse);
      ds = p * (Dot(shape, g, shared.tile_b + lane * Stride(shape)) - row_delta) * scale * score.slope;
    }
    shared.weight_a[lane] = ds;
    __syncwarp();
    AddRows(shape, shared.weight_a, shared.tile_a, lane, sums);
  }
  if (row < shape.seq_len)
    StoreRow(shape, sums, 1.0f, lane, dqkv + (start + row) * ld + own.head * shape.head_dim);
}

// dV = P^T dout, dK = dS^T Q, summed over all heads that share the key-value head.
template <typename T, ScoreKind kKind>
__global__ void __launch_bounds__(kThreads, 1)
    KeyValueGradientKernel(AttentionShape shape, float scale, const T* qkv, const float* lse, const T* dout,
                           const float* delta, T* dqkv) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const Own own = OwnRows(shape, shape.kv_heads, false);
  const Shared shared = SharedOf(shape, warp);
  const std::int64_t ld = shape.RowWidth(), group = shape.heads / shape.kv_heads;
  const std::int64_t start = own.batch * shape.seq_len, row = own.first_row + warp;
  const std::int64_t key = shape.FirstKey() + own.head * shape.head_dim,
                     value = shape.FirstValue() + own.head * shape.head_dim;
  const T* rows = qkv + start * ld;
  LoadTile(shape, rows + key, ld, own.first_row, kRows, shared.own_a);
  LoadTile(shape, rows + value, ld, own.first_row, kRows, shared.own_b);
  const float* k = shared.own_a + warp * Stride(shape);
  const float* v = shared.own_b + warp * Stride(shape);

  float dk[kColumns] = {}, dv[kColumns] = {};
  const std::int64_t end = LastQueryEnd<kKind>(shape, own.first_row + kRows);
  for (std::int64_t head = own.head * group; head < (own.head + 1) * group; ++head) {
    const T* q = rows + head * shape.head_dim;
    const T* g = dout + start * shape.OutWidth() + head * shape.head_dim;
    const std::int64_t statistics = (own.batch * shape.heads + head) * shape.seq_len;
    const ScoreForm form = ScoreFormOf<kKind>(shape, scale, head, 1);
    const int key_row = static_cast<int>(row);
    for (std::int64_t first = own.first_row / kTile * kTile; first < end; first += kTile) {
      __syncthreads();
      LoadTile(shape, q, ld, first, kTile, shared.tile_a);
      LoadTile(shape, g, shape.OutWidth(), first, kTile, shared.tile_b);
      __syncthreads();
      float p = 0, ds = 0;
      const int query = static_cast<int>(first) + lane;
      if (first + lane < shape.seq_len && !IsHidden<kKind>(true, form, query, key_row)) {
        const std::int64_t statistic = statistics + first + lane;
        const Score score =
            ScoreOf<kKind>(Dot(shape, k, shared.tile_a + lane * Stride(shape)), form, query, key_row);
        p = expf(score.value - lse[statistic]);
        ds = p * (Dot(shape, v, shared.tile_b + lane * Stride(shape)) - delta[statistic]) * scale *
             score.slope;
      }
      shared.weight_a[lane] = ds;
      shared.weight_b[lane] = p;
      __syncwarp();
      AddRows(shape, shared.weight_a, shared.tile_a, lane, dk);
      AddRows(shape, shared.weight_b, shared.tile_b, lane, dv);
    }
  }
  if (row >= shape.seq_len) return;
  StoreRow(shape, dk, 1.0f, lane, dqkv + (start + row) * ld + key);
  StoreRow(shape, dv, 1.0f, lane, dqkv + (start + row) * ld + value);
}

template <typename... Parameters, typename... Arguments>
void LaunchRows(void (*kernel)(Parameters...), const AttentionShape& shape, std::int64_t heads,
                cudaStream_t stream, Arguments... arguments) {
  AllowShared(kernel, SharedBytes(shape));
  const unsigned blocks = CeilDiv(shape.seq_len, kRows) * static_cast<unsigned>(shape.batch * heads);
  Launch(kernel, {dim3(blocks), dim3(kThreads), SharedBytes(shape)}, stream, shape, shape.Scale(),
         arguments...);
}

// Calls run with the kind of scores as a constant. Without ALiBi, the bias of these kernels is 0.
template <typename Run>
void WithPlainKind(const AttentionShape& shape, Run run) {
  if (ScoreKindOf(shape) == ScoreKind::kAny) return run.template operator()<ScoreKind::kAny>();
  run.template operator()<ScoreKind::kBiased>();
}

}  // namespace

template <typename T>
void PlainAttentionForward(const AttentionShape& shape, const T* qkv, T* out, float* lse,
                           cudaStream_t stream) {
  WithPlainKind(shape, [&]<ScoreKind kKind>() {
    LaunchRows(ForwardKernel<T, kKind>, shape, shape.heads, stream, qkv, out, lse);
  });
}

template <typename T>
void PlainAttentionBackward(const AttentionShape& shape, const T* qkv, const float* lse, const T* dout,
                            const float* delta, T* dqkv, cudaStream_t stream) {
  WithPlainKind(shape, [&]<ScoreKind kKind>() {
    LaunchRows(KeyValueGradientKernel<T, kKind>, shape, shape.kv_heads, stream, qkv, lse, dout, delta, dqkv);
    LaunchRows(QueryGradientKernel<T, kKind>, shape, shape.heads, stream, qkv, lse, dout, delta, dqkv);
  });
}

template void PlainAttentionForward(const AttentionShape&, const float*, float*, float*, cudaStream_t);
template void PlainAttentionForward(const AttentionShape&, const __nv_bfloat16*, __nv_bfloat16*, float*,
                                    cudaStream_t);
template void PlainAttentionBackward(const AttentionShape&, const float*, const float*, const float*,
                                     const float*, float*, cudaStream_t);
template void PlainAttentionBackward(const AttentionShape&, const __nv_bfloat16*, const float*,
                                     const __nv_bfloat16*, const float*, __nv_bfloat16*, cudaStream_t);

}  // namespace autocfg::cuda
