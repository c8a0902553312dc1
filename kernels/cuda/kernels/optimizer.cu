#include <cmath>

#include "kernels/cuda/kernels/optimizer.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/primitives/tensor_list.cuh"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSquaresChunk = 65536;  // elements per block, and so per partial sum
constexpr std::int64_t kAdamWChunk = 8192;
constexpr int kAtOnce = 4;  // accesses that a thread of SumOfSquares has in flight
constexpr int kGroup = 4;   // adjacent elements that a thread of AdamW updates at once: 16 bytes of float

__device__ bool IsAligned(const void* p, std::uintptr_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) SquaresKernel(TensorList<SquaresItem<T>> list, double* partials) {
  __shared__ double shared[kWarp];
  constexpr int N = kPack<T>;
  const Stretch stretch = StretchOf(list, kSquaresChunk);
  const T* x = list.items[stretch.item].x + stretch.first;
  const std::int64_t n = stretch.end - stretch.first, in_packs = IsAligned(x, 16) ? n / N * N : 0;
  constexpr std::int64_t kStep = kThreads * N;
  double total = 0;
  for (std::int64_t first = std::int64_t{threadIdx.x} * N; first < in_packs; first += kAtOnce * kStep) {
    Vec<T, N> packs[kAtOnce] = {};
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kStep < in_packs) packs[k] = Load<N>(x + first + k * kStep);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      float values[N];
      Unpack(packs[k], values);
#pragma unroll
      for (int i = 0; i < N; ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
  }
  for (std::int64_t i = in_packs + threadIdx.x; i < n; i += kThreads) {
    const double value = static_cast<double>(ToFloat(x[i]));
    total += value * value;
  }
  total = BlockReduce(total, Sum{}, 0.0, shared);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

struct AdamWConstants {
  float beta1, rest1, beta2, rest2;
  float step, root;  // lr / c1, 1 / sqrt(c2)
  float eps;
  double clip_norm;  // 0: no clipping
  const double* squared_norm;
};

// Computes ClipFactor (kernels/ops.h) on the device.
__device__ float GradScale(const AdamWConstants& c) {
  if (c.clip_norm == 0) return 1.0f;
  const double factor = c.clip_norm / (sqrt(*c.squared_norm) + 1e-6);
  return factor < 1.0 ? static_cast<float>(factor) : 1.0f;
}

// Updates N elements of a tensor, starting at `at`.
template <int N, typename T>
__device__ void Update(const AdamWItem<T>& item, std::int64_t at, const AdamWConstants& c, float grad_scale) {
  float grad[N], m[N], v[N], p[N];
  Unpack(Load<N>(item.grad + at), grad);
  Unpack(Load<N>(item.m + at), m);
  Unpack(Load<N>(item.v + at), v);
  if (item.master != nullptr) {
    Unpack(Load<N>(item.master + at), p);
  } else {
    Unpack(Load<N>(item.param + at), p);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = grad[i] * grad_scale;
    m[i] = c.beta1 * m[i] + c.rest1 * g;
    v[i] = c.beta2 * v[i] + c.rest2 * g * g;
    const float divisor =
        sqrtf(v[i]) * c.root + c.eps;  // 0 if eps is 0 and no gradient has arrived yet; no update then
    p[i] = p[i] * item.keep - (divisor > 0.0f ? c.step * m[i] / divisor : 0.0f);
  }
  Store(item.m + at, PackOf<float>(m));
  Store(item.v + at, PackOf<float>(v));
  if (item.master != nullptr) Store(item.master + at, PackOf<float>(p));
  Store(item.param + at, PackOf<T>(p));
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 5)
    AdamWKernel(TensorList<AdamWItem<T>> list, AdamWConstants constants) {
  const float grad_scale = GradScale(constants);
  const Stretch stretch = StretchOf(list, kAdamWChunk);
  const AdamWItem<T> item = list.items[stretch.item];
  const bool aligned = IsAligned(item.param, kGroup * sizeof(T)) && IsAligned(item.grad, 16) &&
                       IsAligned(item.master, 16) && IsAligned(item.m, 16) && IsAligned(item.v, 16);
  const std::int64_t in_groups =
      aligned ? stretch.first + (stretch.end - stretch.first) / kGroup * kGroup : stretch.first;
  for (std::int64_t at = stretch.first + std::int64_t{threadIdx.x} * kGroup; at < in_groups;
       at += kThreads * kGroup) {
    Update<kGroup>(item, at, constants, grad_scale);
  }
  for (std::int64_t at = in_groups + threadIdx.x; at < stretch.end; at += kThreads)
    Update<1>(item, at, constants, grad_scale);
}

}  // namespace

template <typename T>
void SumOfSquares(std::span<const SquaresItem<T>> items, double* result, Scratch& scratch,
                  cudaStream_t stream) {
  std::int64_t blocks = 0;
  for (const SquaresItem<T>& item : items) blocks += CeilDiv(item.n, kSquaresChunk);
  if (blocks == 0) return;
  double* partials = scratch.Get<double>(blocks);
  double* next = partials;
  ForLists(items, kSquaresChunk, [&](const TensorList<SquaresItem<T>>& list, unsigned list_blocks) {
    Launch(SquaresKernel<T>, {dim3(list_blocks), dim3(kThreads)}, stream, list, next);
    next += list_blocks;
  });
  AddSum(blocks, partials, result, stream);
}

template <typename T>
void AdamW(std::span<const AdamWItem<T>> items, const AdamWParams& params, cudaStream_t stream) {
  const AdamWConstants constants{.beta1 = static_cast<float>(params.beta1),
                                 .rest1 = static_cast<float>(1 - params.beta1),
                                 .beta2 = static_cast<float>(params.beta2),
                                 .rest2 = static_cast<float>(1 - params.beta2),
                                 .step = static_cast<float>(params.lr / params.bias_correction1),
                                 .root = static_cast<float>(1 / std::sqrt(params.bias_correction2)),
                                 .eps = static_cast<float>(params.eps),
                                 .clip_norm = params.clip_norm,
                                 .squared_norm = params.squared_norm.As<const double>()};
  ForLists(items, kAdamWChunk, [&](const TensorList<AdamWItem<T>>& list, unsigned blocks) {
    Launch(AdamWKernel<T>, {dim3(blocks), dim3(kThreads)}, stream, list, constants);
  });
}

template void SumOfSquares(std::span<const SquaresItem<float>>, double*, Scratch&, cudaStream_t);
template void SumOfSquares(std::span<const SquaresItem<__nv_bfloat16>>, double*, Scratch&, cudaStream_t);
template void AdamW(std::span<const AdamWItem<float>>, const AdamWParams&, cudaStream_t);
template void AdamW(std::span<const AdamWItem<__nv_bfloat16>>, const AdamWParams&, cudaStream_t);

}  // namespace autocfg::cuda
