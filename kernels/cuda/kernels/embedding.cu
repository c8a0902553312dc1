#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/kernels/embedding.h"
#include "kernels/cuda/kernels/token_sort.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr std::uint64_t kNoToken = ~std::uint64_t{0};
constexpr int kLong = 64;  // runs with more tokens are distributed over warps and blocks
constexpr int kWarps = 8;

template <typename T, int N>
__global__ void __launch_bounds__(kTileThreads)
    ForwardKernel(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                  const std::int32_t* tokens, const T* table, T* out) {
  const std::int64_t column = ColumnOf() * N, step = RowStep();
  if (column >= width) return;
  for (std::int64_t first = FirstRow(); first < rows; first += kTileRows * step) {
    Vec<T, N> values[kTileRows] = {};
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      const std::int64_t row = first + k * step, id = row < rows ? tokens[row] - start : -1;
      if (id >= 0 && id < vocab) values[k] = Load<N>(table + id * width + column);
    }
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row < rows) Store(out + row * width + column, values[k]);
    }
  }
}

// Return the table row and the position of a sorted token.
__device__ unsigned RowOf(std::uint64_t key) { return static_cast<unsigned>(key >> 32); }
__device__ std::int64_t PositionOf(std::uint64_t key) { return static_cast<std::int64_t>(key & 0xffffffffu); }

// Adds rows first, first + by, ... below `end` of the sorted tokens' dout at a column to `total`, in this
// order.
template <typename T, int N>
__device__ void SumRun(const std::uint64_t* sorted, std::int64_t first, std::int64_t end, int by,
                       std::int64_t width, const T* dout, std::int64_t column, float (&total)[N]) {
  for (std::int64_t from = first; from < end; from += kTileRows * by) {
    Vec<T, N> values[kTileRows] = {};
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      if (from + k * by < end) values[k] = Load<N>(dout + PositionOf(sorted[from + k * by]) * width + column);
    }
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      float x[N];
      Unpack(values[k], x);
#pragma unroll
      for (int i = 0; i < N; ++i) total[i] += x[i];
    }
  }
}

// One block per sorted token. The block at the start of a run of at most kLong tokens of one row sums the
// run.
template <typename T, typename S, int N>
__global__ void ShortRunKernel(std::int64_t tokens, const std::uint64_t* sorted, std::int64_t width,
                               const T* dout, S* dtable) {
  const std::int64_t first = blockIdx.x;
  const std::uint64_t key = sorted[first];
  if (key == kNoToken || (first > 0 && RowOf(sorted[first - 1]) == RowOf(key))) return;
  std::int64_t end = first + 1;
  while (end < tokens && end - first <= kLong && RowOf(sorted[end]) == RowOf(key)) ++end;
  if (end - first > kLong) return;
  S* sums = dtable + RowOf(key) * width;
  for (std::int64_t column = std::int64_t{threadIdx.x} * N; column < width;
       column += std::int64_t{blockDim.x} * N) {
    float total[N] = {};
    SumRun(sorted, first, end, 1, width, dout, column, total);
    AddSums(sums + column, total);
  }
}

// Block row x inspects sorted token x kLong. If that is the first multiple of kLong in a run of more than
// kLong tokens, the block sums the run: each warp takes every eighth token, and each block one strip of
// columns.
template <typename T, typename S, int N>
__global__ void __launch_bounds__(kWarps* kWarp)
    LongRunKernel(std::int64_t tokens, const std::uint64_t* sorted, std::int64_t width, const T* dout,
                  S* dtable) {
  float* shared = reinterpret_cast<float*>(SharedMemory());  // [kWarps, kWarp, N]
  const std::int64_t at = std::int64_t{blockIdx.x} * kLong;
  const std::uint64_t key = sorted[at];
  if (key == kNoToken) return;
  const unsigned row = RowOf(key);
  std::int64_t first = at;
  while (first > 0 && at - first < kLong && RowOf(sorted[first - 1]) == row) --first;
  if (at - first == kLong) return;  // another block sums this run
  if (first + kLong >= tokens || RowOf(sorted[first + kLong]) != row) return;
  std::int64_t end = first + kLong, beyond = tokens;  // `end` is in the run, `beyond` is not
  while (beyond - end > 1) {
    const std::int64_t middle = (end + beyond) / 2;
    (RowOf(sorted[middle]) == row ? end : beyond) = middle;
  }
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kWarp + lane) * N;
  float total[N] = {};
  if (column < width) SumRun(sorted, first + warp, beyond, kWarps, width, dout, column, total);
#pragma unroll
  for (int i = 0; i < N; ++i) shared[(warp * kWarp + lane) * N + i] = total[i];
  __syncthreads();
  if (warp > 0 || column >= width) return;
  for (int w = 1; w < kWarps; ++w) {
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] += shared[(w * kWarp + lane) * N + i];
  }
  AddSums(dtable + row * width + column, total);
}

constexpr int kRopeThreads = 256;
constexpr int kRopeAtOnce = 2;  // pairs of accesses that a thread has in flight

// What multiplies the frequencies, and the cosines and sines.
struct NoScales {
  __device__ double OfFrequency(int /*pair*/) const { return 1; }
  __device__ float OfSines() const { return 1; }
};
struct RopeScales {
  double scales[kMostRopeScales];
  float factor;
  __device__ double OfFrequency(int pair) const { return scales[pair]; }
  __device__ float OfSines() const { return factor; }
};

// Rotates element i of a head, together with element i + half, by the angle position * theta^(-i / half),
// scaled.
template <typename T, int N, typename Scales>
__global__ void __launch_bounds__(kRopeThreads) RopeKernel(RopeShape shape, double log2_theta, float sign,
                                                           T* qkv, const __grid_constant__ Scales scales) {
  const int half = static_cast<int>(shape.rotary_dims / 2);
  float* cosines = reinterpret_cast<float*>(SharedMemory());
  float* sines = cosines + half;
  const double position = static_cast<double>(blockIdx.x);
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kRopeThreads) {
    constexpr double kByPi = 0.318309886183790671538;
    const double frequency = exp2(-log2_theta * i / half) * scales.OfFrequency(i);
    const double turns = position * frequency * kByPi;  // in half turns
    const double rest = turns - 2.0 * rint(0.5 * turns);
    float sine, cosine;
    sincospif(static_cast<float>(rest), &sine, &cosine);
    cosines[i] = scales.OfSines() * cosine;
    sines[i] = sign * scales.OfSines() * sine;
  }
  __syncthreads();
  T* row = qkv + (blockIdx.y * shape.seq_len + blockIdx.x) * shape.width;
  const int packs = half / N, all = static_cast<int>(shape.heads) * packs;
  for (int first = static_cast<int>(threadIdx.x); first < all; first += kRopeAtOnce * kRopeThreads) {
    Vec<T, N> lows[kRopeAtOnce], highs[kRopeAtOnce];
#pragma unroll
    for (int k = 0; k < kRopeAtOnce; ++k) {
      const int unit = first + k * kRopeThreads, head = unit / packs, i = (unit - head * packs) * N;
      if (unit >= all) continue;
      lows[k] = Load<N>(row + head * shape.head_dim + i);
      highs[k] = Load<N>(row + head * shape.head_dim + i + half);
    }
#pragma unroll
    for (int k = 0; k < kRopeAtOnce; ++k) {
      const int unit = first + k * kRopeThreads, head = unit / packs, i = (unit - head * packs) * N;
      if (unit >= all) continue;
      float low[N], high[N];
      Unpack(lows[k], low);
      Unpack(highs[k], high);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float x = low[j], y = high[j], c = cosines[i + j], s = sines[i + j];
        low[j] = x * c - y * s;
        high[j] = y * c + x * s;
      }
      Store(row + head * shape.head_dim + i, PackOf<T>(low));
      Store(row + head * shape.head_dim + i + half, PackOf<T>(high));
    }
  }
}

template <typename T, typename Scales>
void LaunchRope(const RopeShape& shape, double theta, const Scales& scales, bool inverse, T* qkv,
                cudaStream_t stream) {
  const LaunchShape launch{dim3(static_cast<unsigned>(shape.seq_len), static_cast<unsigned>(shape.batch)),
                           dim3(kRopeThreads), static_cast<std::size_t>(shape.rotary_dims) * sizeof(float)};
  const auto start = [&]<int N>() {
    Launch(RopeKernel<T, N, Scales>, launch, stream, shape, std::log2(theta), inverse ? -1.0f : 1.0f, qkv,
           scales);
  };
  if (InPacks<T>(shape.width, {qkv}) && shape.rotary_dims / 2 % kPack<T> == 0 &&
      shape.head_dim % kPack<T> == 0) {
    start.template operator()<kPack<T>>();
  } else {
    start.template operator()<1>();
  }
}

}  // namespace

template <typename T>
void EmbeddingForward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                      const std::int32_t* tokens, const T* table, T* out, cudaStream_t stream) {
  WithPacks<T>(width, {table, out}, [&]<int N>() {
    Launch(ForwardKernel<T, N>, TileShape(rows, width / N), stream, rows, width, vocab, start, tokens, table,
           out);
  });
}

template <typename T, typename S>
void EmbeddingBackward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                       const std::int32_t* tokens, const T* dout, S* dtable, Scratch& scratch,
                       cudaStream_t stream) {
  std::uint64_t* sorted = scratch.Get<std::uint64_t>(SortedTokens(rows));
  SortTokens(rows, vocab, start, tokens, sorted, stream);
  WithPacks<T>(width, {dout, dtable}, [&]<int N>() {
    const unsigned columns = CeilDiv(width / N, kWarp);
    const unsigned threads = std::min(columns * kWarp, unsigned{kTileThreads});
    Launch(ShortRunKernel<T, S, N>, {dim3(static_cast<unsigned>(rows)), dim3(threads)}, stream, rows, sorted,
           width, dout, dtable);
    if (rows <= kLong) return;
    Launch(LongRunKernel<T, S, N>,
           {dim3(CeilDiv(rows, kLong), columns), dim3(kWarps * kWarp), kWarps * kWarp * N * sizeof(float)},
           stream, rows, sorted, width, dout, dtable);
  });
}

template <typename T>
void Rope(const RopeShape& shape, const RotaryFrequencies& frequencies, bool inverse, T* qkv,
          cudaStream_t stream) {
  const std::vector<double>& given = frequencies.scales;
  if (frequencies.IsPlain()) return LaunchRope(shape, frequencies.theta, NoScales{}, inverse, qkv, stream);
  RopeScales scales;
  std::ranges::fill(scales.scales, 1.0);
  std::ranges::copy(given, scales.scales);
  scales.factor = static_cast<float>(frequencies.factor);
  LaunchRope(shape, frequencies.theta, scales, inverse, qkv, stream);
}

template void EmbeddingForward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                               const float*, float*, cudaStream_t);
template void EmbeddingForward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                               const __nv_bfloat16*, __nv_bfloat16*, cudaStream_t);
template void EmbeddingBackward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                                const float*, float*, Scratch&, cudaStream_t);
template void EmbeddingBackward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                                const __nv_bfloat16*, float*, Scratch&, cudaStream_t);
template void EmbeddingBackward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                                const __nv_bfloat16*, __nv_bfloat16*, Scratch&, cudaStream_t);
template void Rope(const RopeShape&, const RotaryFrequencies&, bool, float*, cudaStream_t);
template void Rope(const RopeShape&, const RotaryFrequencies&, bool, __nv_bfloat16*, cudaStream_t);

}  // namespace autocfg::cuda
