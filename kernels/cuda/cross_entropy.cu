#include <cfloat>

#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/sum.h"
#include "kernels/cuda/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kAtOnce = 4;  // accesses that a thread has under way
constexpr int kLossThreads = 256;

// The sum of a rank that has padding alone and no peers is 0; see Ops. NaN stays NaN.
__device__ float AtLeastNormal(float sum) { return sum < FLT_MIN ? FLT_MIN : sum; }

// Calls body(column, values) for packs of N neighbouring columns of a row below `columns`, which need not be
// a multiple of N: the packs are read whole, since rows are whole packs. The block's threads share them out.
template <int N, typename T, typename Body>
__device__ void ForColumns(std::int64_t columns, const T* row, Body body) {
  const std::int64_t step = std::int64_t{blockDim.x} * N;
  for (std::int64_t first = std::int64_t{threadIdx.x} * N; first < columns; first += kAtOnce * step) {
    Vec<T, N> packs[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * step < columns) packs[k] = Load<N>(row + first + k * step);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * step >= columns) continue;
      float values[N];
      Unpack(packs[k], values);
      body(first + k * step, values);
    }
  }
}

// How far into a pack of N columns `distance` reaches: in [-1, N], so that the pack's columns are compared in
// 32 bits.
template <int N>
__device__ int Within(std::int64_t distance) {
  return static_cast<int>(distance < 0 ? -1 : distance < N ? distance : N);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    MaxKernel(std::int64_t vocab, std::int64_t valid, const T* logits, float* max) {
  __shared__ float shared[kWarp];
  float most = -FLT_MAX;
  ForColumns<N>(valid, logits + blockIdx.x * vocab, [&](std::int64_t column, const float(&x)[N]) {
    const int left = Within<N>(valid - column);
#pragma unroll
    for (int i = 0; i < N; ++i) most = fmaxf(most, i < left ? x[i] : -FLT_MAX);  // passes over NaN
  });
  most = BlockReduce(most, Max{}, -FLT_MAX, shared);
  if (threadIdx.x == 0) max[blockIdx.x] = most;
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    SumKernel(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits, const float* max,
              const std::int32_t* targets, std::int64_t start, float* sums) {
  __shared__ float shared[kWarp];
  const std::int64_t row = blockIdx.x;
  T* x = logits + row * vocab;
  const float most = max[row];
  if (threadIdx.x == 0) {
    const std::int64_t target = targets[row] - start;
    sums[rows + row] = target >= 0 && target < valid ? ToFloat(x[target]) - most : 0.0f;
  }
  __syncthreads();  // the target's logit has been read
  float total = 0;
  ForColumns<N>(vocab, x, [&](std::int64_t column, float(&v)[N]) {
    const int left = Within<N>(valid - column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] = i < left ? expf(v[i] - most) : 0.0f;
      total += v[i];
    }
    Store(x + column, PackOf<T>(v));
  });
  total = BlockReduce(total, Sum{}, 0.0f, shared);
  if (threadIdx.x == 0) sums[row] = total;
}

// Each block's part of the loss.
__global__ void __launch_bounds__(kLossThreads)
    LossKernel(std::int64_t rows, const float* sums, double* partials) {
  __shared__ double shared[kWarp];
  const std::int64_t row = std::int64_t{blockIdx.x} * kLossThreads + threadIdx.x;
  double loss =
      row < rows ? log(static_cast<double>(AtLeastNormal(sums[row]))) - static_cast<double>(sums[rows + row])
                 : 0.0;
  loss = BlockReduce(loss, Sum{}, 0.0, shared);
  if (threadIdx.x == 0) partials[blockIdx.x] = loss;
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    BackwardKernel(std::int64_t vocab, T* logits, const float* sums, const std::int32_t* targets,
                   std::int64_t start, float scale) {
  const std::int64_t row = blockIdx.x, target = targets[row] - start;
  T* x = logits + row * vocab;
  const float factor = 1.0f / AtLeastNormal(sums[row]);
  ForColumns<N>(vocab, x, [&](std::int64_t column, float(&v)[N]) {
    const int hit = Within<N>(target - column);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = scale * (v[i] * factor - (i == hit ? 1.0f : 0.0f));
    Store(x + column, PackOf<T>(v));
  });
}

LaunchShape BlockARow(std::int64_t rows) { return {dim3(static_cast<unsigned>(rows)), dim3(kThreads)}; }

}  // namespace

template <typename T>
void CrossEntropyMax(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits, float* max,
                     cudaStream_t stream) {
  WithPacks<T>(vocab, {logits},
               [&]<int N>() { Launch(MaxKernel<T, N>, BlockARow(rows), stream, vocab, valid, logits, max); });
}

template <typename T>
void CrossEntropySum(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits, const float* max,
                     const std::int32_t* targets, std::int64_t start, float* sums, cudaStream_t stream) {
  WithPacks<T>(vocab, {logits}, [&]<int N>() {
    Launch(SumKernel<T, N>, BlockARow(rows), stream, rows, vocab, valid, logits, max, targets, start, sums);
  });
}

void CrossEntropyLoss(std::int64_t rows, const float* sums, double* loss, Scratch& scratch,
                      cudaStream_t stream) {
  const unsigned blocks = CeilDiv(rows, kLossThreads);
  double* partials = scratch.Get<double>(blocks);
  Launch(LossKernel, {dim3(blocks), dim3(kLossThreads)}, stream, rows, sums, partials);
  AddSum(blocks, partials, loss, stream);
}

template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, T* logits, const float* sums,
                          const std::int32_t* targets, std::int64_t start, float scale, cudaStream_t stream) {
  WithPacks<T>(vocab, {logits}, [&]<int N>() {
    Launch(BackwardKernel<T, N>, BlockARow(rows), stream, vocab, logits, sums, targets, start, scale);
  });
}

template void CrossEntropyMax(std::int64_t, std::int64_t, std::int64_t, const float*, float*, cudaStream_t);
template void CrossEntropyMax(std::int64_t, std::int64_t, std::int64_t, const __nv_bfloat16*, float*,
                              cudaStream_t);
template void CrossEntropySum(std::int64_t, std::int64_t, std::int64_t, float*, const float*,
                              const std::int32_t*, std::int64_t, float*, cudaStream_t);
template void CrossEntropySum(std::int64_t, std::int64_t, std::int64_t, __nv_bfloat16*, const float*,
                              const std::int32_t*, std::int64_t, float*, cudaStream_t);
template void CrossEntropyBackward(std::int64_t, std::int64_t, float*, const float*, const std::int32_t*,
                                   std::int64_t, float, cudaStream_t);
template void CrossEntropyBackward(std::int64_t, std::int64_t, __nv_bfloat16*, const float*,
                                   const std::int32_t*, std::int64_t, float, cudaStream_t);

}  // namespace autocfg::cuda
