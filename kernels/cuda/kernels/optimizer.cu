#include <cmath>

#include "kernels/cuda/kernels/optimizer.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/primitives/tensor_list.cuh"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSquaresChunk = 65536;  // elements per block, and so per partial sum
constexpr std::int64_t kUpdateChunk = 8192;
constexpr int kAtOnce = 4;  // accesses that a thread of SumOfSquares has in flight
constexpr int kGroup = 4;   // adjacent elements that a thread of an update takes at once: 16 bytes of float

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

struct Clip {
  double norm;  // 0: no clipping
  const double* squared_norm;

  // Computes ClipFactor (kernels/ops.h) on the device.
  __device__ float Factor() const {
    if (norm == 0) return 1.0f;
    const double factor = norm / (sqrt(*squared_norm) + 1e-6);
    return factor < 1.0 ? static_cast<float>(factor) : 1.0f;
  }
};

// Rules update a parameter p and its moments by its gradient g. `decay` is that of UpdateItem.
struct AdamWRule {
  static constexpr bool kHasSecond = true;  // moment
  float beta1, rest1, beta2, rest2;
  float step, root;  // lr / c1, 1 / sqrt(c2)
  float eps;

  __device__ void operator()(float g, float decay, float& p, float& m, float& v) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    const float divisor =
        sqrtf(v) * root + eps;  // 0 if eps is 0 and no gradient has arrived yet; no update then
    p = p * decay - (divisor > 0.0f ? step * m / divisor : 0.0f);
  }
};

struct SgdRule {
  static constexpr bool kHasSecond = false;
  float momentum, lr;

  __device__ void operator()(float g, float decay, float& p, float& m, float& /*v*/) const {
    m = momentum * m + g + decay * p;
    p -= lr * m;
  }
};

// The types of a parameter and its states.
template <typename T, typename G, typename S, typename M>
struct Types {
  using Param = T;
  using Gradient = G;
  using Moment = S;
  using Master = M;
};

template <int N, typename T>
__device__ void LoadFloats(const void* from, std::int64_t at, float (&x)[N]) {
  Unpack(Load<N>(static_cast<const T*>(from) + at), x);
}
template <int N, typename T>
__device__ void StoreFloats(void* to, std::int64_t at, const float (&x)[N]) {
  Store(static_cast<T*>(to) + at, PackOf<T>(x));
}

// Updates N elements of a tensor, starting at `at`.
template <int N, typename Of, typename Rule>
__device__ void Update(const UpdateItem& item, std::int64_t at, const Rule& rule, float grad_scale) {
  float grad[N], m[N] = {}, v[N] = {}, p[N];
  LoadFloats<N, typename Of::Gradient>(item.gradient, at, grad);
  if (item.m != nullptr) LoadFloats<N, typename Of::Moment>(item.m, at, m);
  if constexpr (Rule::kHasSecond) LoadFloats<N, typename Of::Moment>(item.v, at, v);
  if (item.master != nullptr) {
    LoadFloats<N, typename Of::Master>(item.master, at, p);
  } else {
    LoadFloats<N, typename Of::Param>(item.param, at, p);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) rule(grad[i] * grad_scale, item.decay, p[i], m[i], v[i]);
  if (item.m != nullptr) StoreFloats<N, typename Of::Moment>(item.m, at, m);
  if constexpr (Rule::kHasSecond) StoreFloats<N, typename Of::Moment>(item.v, at, v);
  if (item.master != nullptr) StoreFloats<N, typename Of::Master>(item.master, at, p);
  StoreFloats<N, typename Of::Param>(item.param, at, p);
}

template <typename Of, typename Rule>
__global__ void __launch_bounds__(kThreads, 5)
    UpdateKernel(TensorList<UpdateItem> list, Rule rule, Clip clip) {
  const float grad_scale = clip.Factor();
  const Stretch stretch = StretchOf(list, kUpdateChunk);
  const UpdateItem item = list.items[stretch.item];
  const bool aligned = IsAligned(item.param, kGroup * sizeof(typename Of::Param)) &&
                       IsAligned(item.gradient, kGroup * sizeof(typename Of::Gradient)) &&
                       IsAligned(item.master, kGroup * sizeof(typename Of::Master)) &&
                       IsAligned(item.m, kGroup * sizeof(typename Of::Moment)) &&
                       IsAligned(item.v, kGroup * sizeof(typename Of::Moment));
  const std::int64_t in_groups =
      aligned ? stretch.first + (stretch.end - stretch.first) / kGroup * kGroup : stretch.first;
  for (std::int64_t at = stretch.first + std::int64_t{threadIdx.x} * kGroup; at < in_groups;
       at += kThreads * kGroup) {
    Update<kGroup, Of>(item, at, rule, grad_scale);
  }
  for (std::int64_t at = in_groups + threadIdx.x; at < stretch.end; at += kThreads)
    Update<1, Of>(item, at, rule, grad_scale);
}

// Calls run.operator()<Types<...>>() with the types.
template <typename Run>
void WithTypes(const UpdateTypes& types, const Run& run) {
  using Narrow = __nv_bfloat16;
  if (types.param == DType::kF32) {
    if (types.moment == DType::kF32) return run.template operator()<Types<float, float, float, float>>();
    return run.template operator()<Types<float, float, Narrow, float>>();
  }
  const auto with_master = [&]<typename G, typename S>() {
    if (types.master == DType::kF32) return run.template operator()<Types<Narrow, G, S, float>>();
    return run.template operator()<Types<Narrow, G, S, Narrow>>();
  };
  const auto with_moment = [&]<typename G>() {
    if (types.moment == DType::kF32) return with_master.template operator()<G, float>();
    return with_master.template operator()<G, Narrow>();
  };
  if (types.gradient == DType::kF32) return with_moment.template operator()<float>();
  with_moment.template operator()<Narrow>();
}

template <typename Rule>
void UpdateAll(std::span<const UpdateItem> items, const UpdateTypes& types, const Rule& rule,
               const UpdateParams& params, cudaStream_t stream) {
  const Clip clip{params.clip_norm, params.squared_norm.As<const double>()};
  WithTypes(types, [&]<typename Of>() {
    ForLists(items, kUpdateChunk, [&](const TensorList<UpdateItem>& list, unsigned blocks) {
      Launch(UpdateKernel<Of, Rule>, {dim3(blocks), dim3(kThreads)}, stream, list, rule, clip);
    });
  });
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

void AdamW(std::span<const UpdateItem> items, const UpdateTypes& types, const UpdateParams& params,
           cudaStream_t stream) {
  const AdamWRule rule{.beta1 = static_cast<float>(params.beta1),
                       .rest1 = static_cast<float>(1 - params.beta1),
                       .beta2 = static_cast<float>(params.beta2),
                       .rest2 = static_cast<float>(1 - params.beta2),
                       .step = static_cast<float>(params.lr / params.bias_correction1),
                       .root = static_cast<float>(1 / std::sqrt(params.bias_correction2)),
                       .eps = static_cast<float>(params.eps)};
  UpdateAll(items, types, rule, params, stream);
}

void Sgd(std::span<const UpdateItem> items, const UpdateTypes& types, const UpdateParams& params,
         cudaStream_t stream) {
  const SgdRule rule{.momentum = static_cast<float>(params.momentum), .lr = static_cast<float>(params.lr)};
  UpdateAll(items, types, rule, params, stream);
}

template void SumOfSquares(std::span<const SquaresItem<float>>, double*, Scratch&, cudaStream_t);
template void SumOfSquares(std::span<const SquaresItem<__nv_bfloat16>>, double*, Scratch&, cudaStream_t);

}  // namespace autocfg::cuda
