#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/reduce.cuh"
#include "kernels/cuda/primitives/sum.h"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kAtOnce = 8;  // loads that a thread has in flight

__global__ void __launch_bounds__(kThreads)
    AddSumKernel(std::int64_t n, const double* partials, double* result) {
  __shared__ double shared[kWarp];
  double sums[kAtOnce] = {};
  for (std::int64_t first = threadIdx.x; first < n; first += kAtOnce * kThreads) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kThreads < n) sums[k] += partials[first + k * kThreads];
    }
  }
  double total = 0;
  for (int k = 0; k < kAtOnce; ++k) total += sums[k];
  total = BlockReduce(total, Sum{}, 0.0, shared);
  if (threadIdx.x == 0) *result += total;
}

}  // namespace

void AddSum(std::int64_t n, const double* partials, double* result, cudaStream_t stream) {
  Launch(AddSumKernel, {dim3(1), dim3(kThreads)}, stream, n, partials, result);
}

}  // namespace autocfg::cuda
