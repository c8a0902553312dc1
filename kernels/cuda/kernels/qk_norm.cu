// RMS norms over all queries of a token and over all its keys, in the steps of Ops::QkSquares. Sums over a
// row are those of one block. The backward's last step gives a thread some columns and every n-th token, so
// that it adds up their part of dgamma; a second phase adds the parts.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/kernels/head_norm.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kQkThreads = 256;

// The columns of q (part 0) or k (part 1) in a row of qkv and in one of raw.
struct QkPart {
  std::int64_t first, width;
};
__host__ __device__ inline QkPart PartOf(const HeadNormShape& shape, unsigned part) {
  const std::int64_t queries = shape.heads * shape.head_dim;
  if (part == 0) return {0, queries};
  return {queries, shape.kv_heads * shape.head_dim};
}

// A block for each token (x) and part (y).
template <typename T, int N>
__global__ void __launch_bounds__(kQkThreads)
    QkSquaresKernel(HeadNormShape shape, const T* qkv, float* sums) {
  __shared__ float shared[kWarp];
  const QkPart part = PartOf(shape, blockIdx.y);
  const T* x = qkv + blockIdx.x * shape.Width() + part.first;
  float sum = 0;
  for (std::int64_t i = threadIdx.x * N; i < part.width; i += kQkThreads * N) {
    float v[N];
    Unpack(Load<N>(x + i), v);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += v[k] * v[k];
  }
  sum = BlockReduce(sum, Sum{}, 0.0f, shared);
  if (threadIdx.x == 0) sums[2 * blockIdx.x + blockIdx.y] = sum;
}

template <typename T, int N>
__global__ void __launch_bounds__(kQkThreads)
    QkNormForwardKernel(HeadNormShape shape, std::int64_t ranks, T* qkv, const T* gamma_q, const T* gamma_k,
                        float eps, T* raw, float* rstd) {
  const QkPart part = PartOf(shape, blockIdx.y);
  T* x = qkv + blockIdx.x * shape.Width() + part.first;
  T* kept = raw + blockIdx.x * shape.Normed() * shape.head_dim + part.first;
  const T* gamma = blockIdx.y == 0 ? gamma_q : gamma_k;
  float* statistic = rstd + 2 * blockIdx.x + blockIdx.y;
  const float scale = 1.0f / sqrtf(*statistic / static_cast<float>(ranks * part.width) + eps);
  __syncthreads();  // all threads have read the sum
  if (threadIdx.x == 0) *statistic = scale;
  for (std::int64_t i = threadIdx.x * N; i < part.width; i += kQkThreads * N) {
    const Vec<T, N> pack = Load<N>(x + i);
    float v[N], weight[N];
    Unpack(pack, v);
    Unpack(Load<N>(gamma + i), weight);
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = v[k] * scale * weight[k];
    Store(kept + i, pack);
    Store(x + i, PackOf<T>(v));
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kQkThreads)
    QkProductsKernel(HeadNormShape shape, const T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                     const float* rstd, float* products) {
  __shared__ float shared[kWarp];
  const QkPart part = PartOf(shape, blockIdx.y);
  const T* dy = dqkv + blockIdx.x * shape.Width() + part.first;
  const T* x = raw + blockIdx.x * shape.Normed() * shape.head_dim + part.first;
  const T* gamma = blockIdx.y == 0 ? gamma_q : gamma_k;
  float sum = 0;
  for (std::int64_t i = threadIdx.x * N; i < part.width; i += kQkThreads * N) {
    float v[N], g[N], weight[N];
    Unpack(Load<N>(x + i), v);
    Unpack(Load<N>(dy + i), g);
    Unpack(Load<N>(gamma + i), weight);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += g[k] * weight[k] * v[k];
  }
  sum = BlockReduce(sum, Sum{}, 0.0f, shared);
  const std::int64_t at = 2 * std::int64_t{blockIdx.x} + blockIdx.y;
  if (threadIdx.x == 0) products[at] = sum * rstd[at];
}

// Of one part. partials[gridDim.y, width] are the sums of dgamma of the tokens of a row of blocks.
template <typename T, int N>
__global__ void __launch_bounds__(kQkThreads)
    QkNormBackwardKernel(HeadNormShape shape, int part_index, float by_width, T* dqkv, const T* raw,
                         const T* gamma, const float* rstd, const float* products, float* partials) {
  const QkPart part = PartOf(shape, static_cast<unsigned>(part_index));
  const std::int64_t column = (std::int64_t{blockIdx.x} * kQkThreads + threadIdx.x) * N;
  if (column >= part.width) return;
  float weight[N], dgamma[N] = {};
  Unpack(Load<N>(gamma + column), weight);
  for (std::int64_t token = blockIdx.y; token < shape.tokens; token += gridDim.y) {
    T* dy = dqkv + token * shape.Width() + part.first + column;
    float v[N], g[N];
    Unpack(Load<N>(raw + token * shape.Normed() * shape.head_dim + part.first + column), v);
    Unpack(Load<N>(dy), g);
    const float scale = rstd[2 * token + part_index], mean = products[2 * token + part_index] * by_width;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float n = v[k] * scale;
      dgamma[k] += g[k] * n;
      g[k] = scale * (g[k] * weight[k] - n * mean);
    }
    Store(dy, PackOf<T>(g));
  }
  float* to = partials + blockIdx.y * part.width + column;
#pragma unroll
  for (int k = 0; k < N; ++k) to[k] = dgamma[k];
}

LaunchShape QkRows(const HeadNormShape& shape) {
  return {dim3(static_cast<unsigned>(shape.tokens), 2), dim3(kQkThreads)};
}

}  // namespace

template <typename T>
void QkSquares(const HeadNormShape& shape, const T* qkv, float* sums, cudaStream_t stream) {
  WithPacks<T>(shape.head_dim, {qkv},
               [&]<int N>() { Launch(QkSquaresKernel<T, N>, QkRows(shape), stream, shape, qkv, sums); });
}

template <typename T>
void QkNormForward(const HeadNormShape& shape, std::int64_t ranks, T* qkv, const T* gamma_q, const T* gamma_k,
                   float eps, T* raw, float* rstd, cudaStream_t stream) {
  WithPacks<T>(shape.head_dim, {qkv, gamma_q, gamma_k, raw}, [&]<int N>() {
    Launch(QkNormForwardKernel<T, N>, QkRows(shape), stream, shape, ranks, qkv, gamma_q, gamma_k, eps, raw,
           rstd);
  });
}

template <typename T>
void QkProducts(const HeadNormShape& shape, const T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                const float* rstd, float* products, cudaStream_t stream) {
  WithPacks<T>(shape.head_dim, {dqkv, raw, gamma_q, gamma_k}, [&]<int N>() {
    Launch(QkProductsKernel<T, N>, QkRows(shape), stream, shape, dqkv, raw, gamma_q, gamma_k, rstd, products);
  });
}

template <typename T, typename S>
void QkNormBackward(const HeadNormShape& shape, std::int64_t ranks, T* dqkv, const T* raw, const T* gamma_q,
                    const T* gamma_k, const float* rstd, const float* products, S* dgamma_q, S* dgamma_k,
                    bool accumulate, Scratch& scratch, cudaStream_t stream) {
  constexpr std::int64_t kFewestTokens = 16, kMostParts = 64;  // of a block; of a column
  const std::int64_t parts = std::min<std::int64_t>(CeilDiv(shape.tokens, kFewestTokens), kMostParts);
  float* partials = scratch.Get<float>(parts * shape.heads * shape.head_dim);
  WithPacks<T>(shape.head_dim, {dqkv, raw, gamma_q, gamma_k}, [&]<int N>() {
    for (const int part : {0, 1}) {
      const std::int64_t width = PartOf(shape, static_cast<unsigned>(part)).width;
      const LaunchShape grid{dim3(CeilDiv(width, kQkThreads * N), static_cast<unsigned>(parts)),
                             dim3(kQkThreads)};
      Launch(QkNormBackwardKernel<T, N>, grid, stream, shape, part, 1.0f / static_cast<float>(ranks * width),
             dqkv, raw, part == 0 ? gamma_q : gamma_k, rstd, products, partials);
      AddPartials<S>(parts, width, partials, {part == 0 ? dgamma_q : dgamma_k}, accumulate, stream);
    }
  });
}

template void QkSquares(const HeadNormShape&, const float*, float*, cudaStream_t);
template void QkNormForward(const HeadNormShape&, std::int64_t, float*, const float*, const float*, float,
                            float*, float*, cudaStream_t);
template void QkProducts(const HeadNormShape&, const float*, const float*, const float*, const float*,
                         const float*, float*, cudaStream_t);
template void QkNormBackward(const HeadNormShape&, std::int64_t, float*, const float*, const float*,
                             const float*, const float*, const float*, float*, float*, bool, Scratch&,
                             cudaStream_t);
template void QkSquares(const HeadNormShape&, const __nv_bfloat16*, float*, cudaStream_t);
template void QkNormForward(const HeadNormShape&, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*,
                            const __nv_bfloat16*, float, __nv_bfloat16*, float*, cudaStream_t);
template void QkProducts(const HeadNormShape&, const __nv_bfloat16*, const __nv_bfloat16*,
                         const __nv_bfloat16*, const __nv_bfloat16*, const float*, float*, cudaStream_t);
template void QkNormBackward(const HeadNormShape&, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*,
                             const __nv_bfloat16*, const __nv_bfloat16*, const float*, const float*, float*,
                             float*, bool, Scratch&, cudaStream_t);
template void QkNormBackward(const HeadNormShape&, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*,
                             const __nv_bfloat16*, const __nv_bfloat16*, const float*, const float*,
                             __nv_bfloat16*, __nv_bfloat16*, bool, Scratch&, cudaStream_t);

}  // namespace autocfg::cuda
