// One set of kernels for both norms; kCentered is LayerNorm.
//
// Forward: a warp (short rows) or a block holds a row in registers, so that x is read once. The variance is
// computed from the differences to the mean. Rows that do not fit are read again, mostly from cache.
//
// Backward, with n = (x - mean) rstd (n = x rstd for RMSNorm) and g = dy gamma:
//   dx = rstd (g - mean(g) - n mean(g n)), without mean(g) for RMSNorm;
//   dgamma = sum dy n; dbeta = sum dy.
// The grid has as many blocks as run at once. Each block takes rows at a stride of the grid size, loads the
// next row while it processes one, and keeps dgamma and dbeta of its rows in registers. A second phase adds
// the partial sums.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/kernels/norm.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

template <typename T>
struct NormForwardArguments {
  std::int64_t rows, width;
  const T* x;
  const T* gamma;
  const T* beta;  // null, like mean, for RMSNorm
  float eps;
  T* y;
  float* mean;
  float* rstd;
};

template <typename T>
struct NormBackwardArguments {
  std::int64_t rows, width;
  const T* dy;
  const T* x;
  const T* gamma;
  const float* mean;  // null for RMSNorm
  const float* rstd;
  T* dx;  // may alias dy if not accumulated into
  bool add;
};

// The gradients of the parameters: written, or added to. dbeta is null for RMSNorm.
template <typename S>
struct ParameterGradients {
  S* dgamma;
  S* dbeta;
  bool add;
};

// Calls body(slot, pack) for the packs of a row that belong to thread `rank` of `size`: kPacks of them, or
// any number in slot 0 if kPacks is 0.
template <int kPacks, typename Body>
__device__ void ForPacks(int rank, int size, int packs, Body body) {
  if constexpr (kPacks > 0) {
#pragma unroll
    for (int slot = 0; slot < kPacks; ++slot) {
      const int pack = rank + slot * size;
      if (pack < packs) body(slot, pack);
    }
  } else {
    for (int pack = rank; pack < packs; pack += size) body(0, pack);
  }
}

template <bool kWarpRow>
__device__ float TeamSum(float value, float* shared) {
  if constexpr (kWarpRow) {
    return WarpReduce(value, Sum{});
  } else {
    return BlockReduce(value, Sum{}, 0.0f, shared);
  }
}

constexpr int kWarpRowThreads = 4 * kWarp;
constexpr int kBlockRowThreads = 1024;  // at most

template <typename T, int N, int kPacks, bool kWarpRow, bool kCentered>
__global__ void __launch_bounds__(kWarpRow ? kWarpRowThreads : kBlockRowThreads)
    ForwardKernel(NormForwardArguments<T> a) {
  __shared__ float shared[kWarp];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int rank = kWarpRow ? thread % kWarp : thread, size = kWarpRow ? kWarp : threads;
  const std::int64_t row =
      kWarpRow ? std::int64_t{blockIdx.x} * (threads / kWarp) + thread / kWarp : std::int64_t{blockIdx.x};
  if (row >= a.rows) return;  // uniform over the team
  const int packs = static_cast<int>(a.width / N);
  const T* x = a.x + row * a.width;
  T* y = a.y + row * a.width;
  const float by_width = 1.0f / static_cast<float>(a.width);

  Vec<T, N> kept[kPacks > 0 ? kPacks : 1] = {};
  float sum = 0;
  ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
    kept[slot] = Load<N>(x + std::int64_t{pack} * N);
    float v[N];
    Unpack(kept[slot], v);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += kCentered ? v[i] : v[i] * v[i];
  });
  sum = TeamSum<kWarpRow>(sum, shared);
  float mean = 0, squares = sum;
  if constexpr (kCentered) {
    mean = sum / static_cast<float>(a.width);
    squares = 0;
    ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
      float v[N];
      Unpack(kPacks > 0 ? kept[slot] : Load<N>(x + std::int64_t{pack} * N), v);
#pragma unroll
      for (int i = 0; i < N; ++i) squares += (v[i] - mean) * (v[i] - mean);
    });
    squares = TeamSum<kWarpRow>(squares, shared);
  }
  const float rstd = 1.0f / sqrtf(squares * by_width + a.eps);
  ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
    const std::int64_t at = std::int64_t{pack} * N;
    float v[N], gamma[N], beta[N];
    Unpack(kPacks > 0 ? kept[slot] : Load<N>(x + at), v);
    Unpack(Load<N>(a.gamma + at), gamma);
    if constexpr (kCentered) Unpack(Load<N>(a.beta + at), beta);
#pragma unroll
    for (int i = 0; i < N; ++i)
      v[i] = kCentered ? (v[i] - mean) * rstd * gamma[i] + beta[i] : v[i] * rstd * gamma[i];
    Store(y + at, PackOf<T>(v));
  });
  if (rank == 0) {
    if constexpr (kCentered) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
}

// Sums two values over the block; every thread gets the sums. `shared` has room for 64.
__device__ inline void BlockSums(float& a, float& b, float* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  a = WarpReduce(a, Sum{});
  b = WarpReduce(b, Sum{});
  if (lane == 0) {
    shared[warp] = a;
    shared[kWarp + warp] = b;
  }
  __syncthreads();
  a = WarpReduce(lane < warps ? shared[lane] : 0.0f, Sum{});
  b = WarpReduce(lane < warps ? shared[kWarp + lane] : 0.0f, Sum{});
}

constexpr int kBackwardThreads = 512;

// partials[gridDim.x, width]: the block's dgamma; for LayerNorm followed by as many of dbeta. If kPacks is 0,
// they are summed in place.
template <typename T, int N, int kPacks, bool kCentered>
__global__ void __launch_bounds__(kBackwardThreads, kPacks == 1 ? 2 : 1)
    BackwardKernel(NormBackwardArguments<T> a, float* partials) {
  constexpr int kSlots = kPacks > 0 ? kPacks : 1;
  constexpr bool kAhead = kPacks == 1 || kPacks == 2;  // keep registers for the next row
  // Keep this row in registers; if the sums need these, it is read again, from cache.
  constexpr bool kKept = kPacks > 0 && kPacks * N * (kCentered ? 2 : 1) <= 48;
  __shared__ float shared[2][2 * kWarp];
  const int rank = static_cast<int>(threadIdx.x), size = static_cast<int>(blockDim.x),
            packs = static_cast<int>(a.width / N);
  const float by_width = 1.0f / static_cast<float>(a.width);
  float* own_dgamma = partials + blockIdx.x * a.width;
  float* own_dbeta = own_dgamma + gridDim.x * a.width;

  float dgamma[kSlots][N] = {}, dbeta[kSlots][N] = {};
  Vec<T, N> xs[kSlots], dys[kSlots], next_xs[kSlots], next_dys[kSlots];
  const auto load = [&](std::int64_t row, Vec<T, N>(&to_x)[kSlots], Vec<T, N>(&to_dy)[kSlots]) {
    ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
      to_x[slot] = Load<N>(a.x + row * a.width + std::int64_t{pack} * N);
      to_dy[slot] = Load<N>(a.dy + row * a.width + std::int64_t{pack} * N);
    });
  };
  if constexpr (kAhead) load(blockIdx.x, next_xs, next_dys);

  int parity = 0;  // parity of the row: one row's sums are still read while the next row's are computed
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, parity ^= 1) {
    if constexpr (kAhead) {
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        xs[slot] = next_xs[slot];
        dys[slot] = next_dys[slot];
      }
      if (row + gridDim.x < a.rows) load(row + gridDim.x, next_xs, next_dys);
    } else if constexpr (kKept) {
      load(row, xs, dys);
    }
    const float rstd = a.rstd[row], mean = kCentered ? a.mean[row] : 0.0f;
    // Unpacks n, dy and gamma of a pack.
    const auto unpack = [&](int slot, int pack, float(&n)[N], float(&dy)[N], float(&gamma)[N]) {
      const std::int64_t at = std::int64_t{pack} * N;
      Unpack(kKept ? xs[slot] : Load<N>(a.x + row * a.width + at), n);
      Unpack(kKept ? dys[slot] : Load<N>(a.dy + row * a.width + at), dy);
      Unpack(Load<N>(a.gamma + at), gamma);
#pragma unroll
      for (int i = 0; i < N; ++i) n[i] = (n[i] - mean) * rstd;
    };
    float sum_g = 0, sum_gn = 0;
    ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
      float n[N], dy[N], gamma[N];
      unpack(slot, pack, n, dy, gamma);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float g = dy[i] * gamma[i];
        sum_g += g;
        sum_gn += g * n[i];
        if constexpr (kPacks > 0) {
          dgamma[slot][i] += dy[i] * n[i];
          dbeta[slot][i] += dy[i];
        } else {
          const std::int64_t at = std::int64_t{pack} * N + i;
          const bool first = row == blockIdx.x;
          own_dgamma[at] = (first ? 0.0f : own_dgamma[at]) + dy[i] * n[i];
          if constexpr (kCentered) own_dbeta[at] = (first ? 0.0f : own_dbeta[at]) + dy[i];
        }
      }
    });
    if constexpr (!kCentered) sum_g = 0;
    Vec<T, N> olds[kSlots] = {};  // loaded before the block waits for its sums
    if constexpr (kAhead) {
      if (a.add) {
        ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
          olds[slot] = Load<N>(a.dx + row * a.width + std::int64_t{pack} * N);
        });
      }
    }
    BlockSums(sum_g, sum_gn, shared[parity]);
    const float mean_g = sum_g * by_width, mean_gn = sum_gn * by_width;
    ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
      float n[N], dy[N], gamma[N], old[N];
      unpack(slot, pack, n, dy, gamma);
      T* dx = a.dx + row * a.width + std::int64_t{pack} * N;
      if (a.add) Unpack(kAhead ? olds[slot] : Load<N>(dx), old);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float d = rstd * (dy[i] * gamma[i] - mean_g - n[i] * mean_gn);
        n[i] = a.add ? old[i] + d : d;
      }
      Store(dx, PackOf<T>(n));
    });
  }
  if constexpr (kPacks > 0) {
    ForPacks<kPacks>(rank, size, packs, [&](int slot, int pack) {
      StoreSums(own_dgamma + std::int64_t{pack} * N, dgamma[slot]);
      if constexpr (kCentered) StoreSums(own_dbeta + std::int64_t{pack} * N, dbeta[slot]);
    });
  }
}

template <typename T, int N, int kPacks, bool kWarpRow, bool kCentered>
void StartForward(const NormForwardArguments<T>& a, unsigned threads, cudaStream_t stream) {
  const unsigned blocks = kWarpRow ? CeilDiv(a.rows, threads / kWarp) : static_cast<unsigned>(a.rows);
  Launch(ForwardKernel<T, N, kPacks, kWarpRow, kCentered>, {dim3(blocks), dim3(threads)}, stream, a);
}

template <typename T, int N, int kPacks, bool kCentered, typename S>
void StartBackward(const NormBackwardArguments<T>& a, const ParameterGradients<S>& to, Scratch& scratch,
                   cudaStream_t stream) {
  constexpr std::int64_t kFewestRows = 4;  // rows per block; its partial sums are as large as a row
  const auto kernel = BackwardKernel<T, N, kPacks, kCentered>;
  const std::int64_t packs = a.width / N;
  const int threads = static_cast<int>(
      std::min<std::int64_t>(CeilDiv(CeilDiv(packs, std::max(kPacks, 1)), kWarp) * kWarp, kBackwardThreads));
  const std::int64_t blocks =
      std::min<std::int64_t>(CeilDiv(a.rows, kFewestRows), ResidentBlocks(kernel, threads));
  float* partials = scratch.Get<float>((kCentered ? 2 : 1) * blocks * a.width);
  Launch(kernel, {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))}, stream, a,
         partials);
  AddPartials<S>(blocks, a.width, partials, {to.dgamma, to.dbeta}, to.add, stream);
}

// Writes y, rstd and, for LayerNorm, mean.
template <bool kCentered, typename T>
void NormForward(const NormForwardArguments<T>& a, cudaStream_t stream) {
  constexpr int N = kPack<T>;
  if (!InPacks<T>(a.width, {a.x, a.gamma, a.beta, a.y}))
    return StartForward<T, 1, 0, false, kCentered>(a, 256, stream);
  const std::int64_t packs = a.width / N;
  if (packs <= kWarp) return StartForward<T, N, 1, true, kCentered>(a, kWarpRowThreads, stream);
  if (packs <= 2 * kWarp) return StartForward<T, N, 2, true, kCentered>(a, kWarpRowThreads, stream);
  if (packs <= 4 * kWarp) return StartForward<T, N, 4, true, kCentered>(a, kWarpRowThreads, stream);
  if (packs <= 8 * kWarp) return StartForward<T, N, 8, true, kCentered>(a, kWarpRowThreads, stream);
  if (packs <= 4 * kBlockRowThreads)
    return StartForward<T, N, 4, false, kCentered>(a, CeilDiv(CeilDiv(packs, 4), kWarp) * kWarp, stream);
  StartForward<T, N, 0, false, kCentered>(a, kBlockRowThreads, stream);
}

// dx =, or += if accumulated into; dgamma[width] and, for LayerNorm, dbeta[width] likewise.
template <bool kCentered, typename T, typename S>
void NormBackward(const NormBackwardArguments<T>& a, const ParameterGradients<S>& to, Scratch& scratch,
                  cudaStream_t stream) {
  constexpr int N = kPack<T>;
  if (!InPacks<T>(a.width, {a.dy, a.x, a.gamma, a.dx})) {
    if (a.width <= 4 * kBackwardThreads) return StartBackward<T, 1, 4, kCentered>(a, to, scratch, stream);
    return StartBackward<T, 1, 0, kCentered>(a, to, scratch, stream);
  }
  const std::int64_t packs = a.width / N;
  if (packs <= kBackwardThreads) return StartBackward<T, N, 1, kCentered>(a, to, scratch, stream);
  if (packs <= 2 * kBackwardThreads) return StartBackward<T, N, 2, kCentered>(a, to, scratch, stream);
  if (packs <= 3 * kBackwardThreads) return StartBackward<T, N, 3, kCentered>(a, to, scratch, stream);
  if (packs <= 4 * kBackwardThreads) return StartBackward<T, N, 4, kCentered>(a, to, scratch, stream);
  StartBackward<T, N, 0, kCentered>(a, to, scratch, stream);
}

}  // namespace

template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta,
                      float eps, T* y, float* mean, float* rstd, cudaStream_t stream) {
  NormForward<true>(NormForwardArguments<T>{rows, width, x, gamma, beta, eps, y, mean, rstd}, stream);
}

template <typename T, typename S>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const float* mean, const float* rstd, T* dx, bool add, S* dgamma, S* dbeta,
                       bool accumulate, Scratch& scratch, cudaStream_t stream) {
  NormBackward<true>(NormBackwardArguments<T>{rows, width, dy, x, gamma, mean, rstd, dx, add},
                     ParameterGradients<S>{dgamma, dbeta, accumulate}, scratch, stream);
}

template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, float eps, T* y,
                    float* rstd, cudaStream_t stream) {
  NormForward<false>(NormForwardArguments<T>{rows, width, x, gamma, nullptr, eps, y, nullptr, rstd}, stream);
}

template <typename T, typename S>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const float* rstd, T* dx, bool add, S* dgamma, bool accumulate, Scratch& scratch,
                     cudaStream_t stream) {
  NormBackward<false>(NormBackwardArguments<T>{rows, width, dy, x, gamma, nullptr, rstd, dx, add},
                      ParameterGradients<S>{dgamma, nullptr, accumulate}, scratch, stream);
}

template void LayerNormForward(std::int64_t, std::int64_t, const float*, const float*, const float*, float,
                               float*, float*, float*, cudaStream_t);
template void LayerNormForward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                               const __nv_bfloat16*, float, __nv_bfloat16*, float*, float*, cudaStream_t);
template void LayerNormBackward(std::int64_t, std::int64_t, const float*, const float*, const float*,
                                const float*, const float*, float*, bool, float*, float*, bool, Scratch&,
                                cudaStream_t);
template void LayerNormBackward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                                const __nv_bfloat16*, const float*, const float*, __nv_bfloat16*, bool,
                                float*, float*, bool, Scratch&, cudaStream_t);
template void RmsNormForward(std::int64_t, std::int64_t, const float*, const float*, float, float*, float*,
                             cudaStream_t);
template void RmsNormForward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*, float,
                             __nv_bfloat16*, float*, cudaStream_t);
template void RmsNormBackward(std::int64_t, std::int64_t, const float*, const float*, const float*,
                              const float*, float*, bool, float*, bool, Scratch&, cudaStream_t);
template void RmsNormBackward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                              const __nv_bfloat16*, const float*, __nv_bfloat16*, bool, float*, bool,
                              Scratch&, cudaStream_t);
template void LayerNormBackward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                                const __nv_bfloat16*, const float*, const float*, __nv_bfloat16*, bool,
                                __nv_bfloat16*, __nv_bfloat16*, bool, Scratch&, cudaStream_t);
template void RmsNormBackward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                              const __nv_bfloat16*, const float*, __nv_bfloat16*, bool, __nv_bfloat16*, bool,
                              Scratch&, cudaStream_t);

}  // namespace autocfg::cuda
