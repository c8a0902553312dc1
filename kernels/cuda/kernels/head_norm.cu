// A warp normalizes one head of one token at a time. Each lane owns every 32nd pack of N elements. With n = x
// rstd and g = dy gamma: dx = rstd (g - n mean(g n)), dgamma = sum dy n.
#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/kernels/head_norm.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kHeadWarps = 8;
constexpr int kHeadThreads = kHeadWarps * kWarp;

// Calls body(column) for the first column of each pack of this lane.
template <int N, typename Body>
__device__ void ForHeadPacks(int head_dim, Body body) {
  for (int d = static_cast<int>(threadIdx.x) % kWarp * N; d < head_dim; d += kWarp * N) body(d);
}

template <typename T, int N>
__global__ void __launch_bounds__(kHeadThreads)
    HeadNormForwardKernel(HeadNormShape shape, T* qkv, const T* gamma_q, const T* gamma_k, float eps, T* raw,
                          float* rstd) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kHeadWarps + threadIdx.x / kWarp;
  if (at >= shape.tokens * shape.Normed()) return;  // uniform over the warp
  const std::int64_t token = at / shape.Normed(), head = at % shape.Normed();
  const int dim = static_cast<int>(shape.head_dim);
  T* x = qkv + token * shape.Width() + head * dim;
  T* kept = raw + at * dim;
  const T* gamma = head < shape.heads ? gamma_q : gamma_k;
  float squares = 0;
  ForHeadPacks<N>(dim, [&](int d) {
    float v[N];
    Unpack(Load<N>(x + d), v);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += v[i] * v[i];
  });
  const float scale = 1.0f / sqrtf(WarpReduce(squares, Sum{}) / static_cast<float>(dim) + eps);
  ForHeadPacks<N>(dim, [&](int d) {
    const Vec<T, N> pack = Load<N>(x + d);
    float v[N], weight[N];
    Unpack(pack, v);
    Unpack(Load<N>(gamma + d), weight);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = v[i] * scale * weight[i];
    Store(kept + d, pack);
    Store(x + d, PackOf<T>(v));
  });
  if (threadIdx.x % kWarp == 0) rstd[at] = scale;
}

// blockIdx.y: 0 for the heads of q, 1 for those of k. partials[gridDim.y, gridDim.x, head_dim] are the
// blocks' sums of dgamma; each warp keeps its own in shared memory.
template <typename T, int N>
__global__ void __launch_bounds__(kHeadThreads)
    HeadNormBackwardKernel(HeadNormShape shape, T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                           const float* rstd, float* partials) {
  const int dim = static_cast<int>(shape.head_dim), warp = static_cast<int>(threadIdx.x) / kWarp;
  float* sums = reinterpret_cast<float*>(SharedMemory());
  float* own = sums + warp * dim;
  const bool keys = blockIdx.y == 1;
  const std::int64_t first = keys ? shape.heads : 0, heads = keys ? shape.kv_heads : shape.heads;
  const T* gamma = keys ? gamma_k : gamma_q;
  const float by_dim = 1.0f / static_cast<float>(dim);
  ForHeadPacks<N>(dim, [&](int d) {
#pragma unroll
    for (int i = 0; i < N; ++i) own[d + i] = 0;
  });
  for (std::int64_t row = std::int64_t{blockIdx.x} * kHeadWarps + warp; row < shape.tokens * heads;
       row += std::int64_t{gridDim.x} * kHeadWarps) {
    const std::int64_t token = row / heads, head = first + row % heads, at = token * shape.Normed() + head;
    const T* x = raw + at * dim;
    T* dy = dqkv + token * shape.Width() + head * dim;
    const float scale = rstd[at];
    float sum_gn = 0;
    ForHeadPacks<N>(dim, [&](int d) {
      float v[N], g[N], weight[N];
      Unpack(Load<N>(x + d), v);
      Unpack(Load<N>(dy + d), g);
      Unpack(Load<N>(gamma + d), weight);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float along = g[i] * v[i] * scale;
        own[d + i] += along;
        sum_gn += along * weight[i];
      }
    });
    const float mean_gn = WarpReduce(sum_gn, Sum{}) * by_dim;
    ForHeadPacks<N>(dim, [&](int d) {
      float v[N], g[N], weight[N];
      Unpack(Load<N>(x + d), v);
      Unpack(Load<N>(dy + d), g);
      Unpack(Load<N>(gamma + d), weight);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = scale * (g[i] * weight[i] - v[i] * scale * mean_gn);
      Store(dy + d, PackOf<T>(g));
    });
  }
  __syncthreads();
  float* to = partials + (std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * dim;
  for (int d = static_cast<int>(threadIdx.x); d < dim; d += kHeadThreads) {
    float sum = 0;
    for (int w = 0; w < kHeadWarps; ++w) sum += sums[w * dim + d];
    to[d] = sum;
  }
}

// Runs body.operator()<N>() with the widest access of a warp's lanes that leaves none of them idle, if rows
// of heads allow it.
template <typename T, typename Body>
void WithHeadPacks(std::int64_t head_dim, std::initializer_list<const void*> addresses, Body body) {
  if (InPacks<T>(head_dim, addresses)) {
    if (head_dim % (4 * kWarp) == 0) return body.template operator()<4>();
    if (head_dim % (2 * kWarp) == 0) return body.template operator()<2>();
  }
  body.template operator()<1>();
}

}  // namespace

template <typename T>
void HeadNormForward(const HeadNormShape& shape, T* qkv, const T* gamma_q, const T* gamma_k, float eps,
                     T* raw, float* rstd, cudaStream_t stream) {
  WithHeadPacks<T>(shape.head_dim, {qkv, gamma_q, gamma_k, raw}, [&]<int N>() {
    const unsigned blocks = CeilDiv(shape.tokens * shape.Normed(), kHeadWarps);
    Launch(HeadNormForwardKernel<T, N>, {dim3(blocks), dim3(kHeadThreads)}, stream, shape, qkv, gamma_q,
           gamma_k, eps, raw, rstd);
  });
}

template <typename T, typename S>
void HeadNormBackward(const HeadNormShape& shape, T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                      const float* rstd, S* dgamma_q, S* dgamma_k, bool accumulate, Scratch& scratch,
                      cudaStream_t stream) {
  if (shape.head_dim > kMostHeadDim)
    throw std::invalid_argument("norms of heads: the CUDA device supports head dimensions up to 256");
  WithHeadPacks<T>(shape.head_dim, {dqkv, raw, gamma_q, gamma_k}, [&]<int N>() {
    constexpr std::int64_t kFewestRows = 4 * kHeadWarps;  // of a block
    const auto kernel = HeadNormBackwardKernel<T, N>;
    const auto shared = static_cast<std::size_t>(kHeadWarps * shape.head_dim) * sizeof(float);
    const std::int64_t blocks = std::min<std::int64_t>(CeilDiv(shape.tokens * shape.heads, kFewestRows),
                                                       ResidentBlocks(kernel, kHeadThreads, shared));
    float* partials = scratch.Get<float>(2 * blocks * shape.head_dim);
    Launch(kernel, {dim3(static_cast<unsigned>(blocks), 2), dim3(kHeadThreads), shared}, stream, shape, dqkv,
           raw, gamma_q, gamma_k, rstd, partials);
    AddPartials<S>(blocks, shape.head_dim, partials, {dgamma_q, dgamma_k}, accumulate, stream);
  });
}

template void HeadNormForward(const HeadNormShape&, float*, const float*, const float*, float, float*, float*,
                              cudaStream_t);
template void HeadNormForward(const HeadNormShape&, __nv_bfloat16*, const __nv_bfloat16*,
                              const __nv_bfloat16*, float, __nv_bfloat16*, float*, cudaStream_t);
template void HeadNormBackward(const HeadNormShape&, float*, const float*, const float*, const float*,
                               const float*, float*, float*, bool, Scratch&, cudaStream_t);
template void HeadNormBackward(const HeadNormShape&, __nv_bfloat16*, const __nv_bfloat16*,
                               const __nv_bfloat16*, const __nv_bfloat16*, const float*, float*, float*, bool,
                               Scratch&, cudaStream_t);
template void HeadNormBackward(const HeadNormShape&, __nv_bfloat16*, const __nv_bfloat16*,
                               const __nv_bfloat16*, const __nv_bfloat16*, const float*, __nv_bfloat16*,
                               __nv_bfloat16*, bool, Scratch&, cudaStream_t);

}  // namespace autocfg::cuda
