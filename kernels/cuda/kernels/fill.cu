#include <algorithm>

#include "kernels/cuda/kernels/fill.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/number.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

template <typename T>
__global__ void FillKernel(std::int64_t n, T value, T* y) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = value;
}

}  // namespace

template <typename T>
void Fill(std::int64_t n, T value, T* y, cudaStream_t stream) {
  const unsigned blocks =
      static_cast<unsigned>(std::min<std::int64_t>((n + kThreads - 1) / kThreads, kMostBlocks));
  Launch(FillKernel<T>, {dim3(blocks), dim3(kThreads)}, stream, n, value, y);
}

template void Fill(std::int64_t, float, float*, cudaStream_t);
template void Fill(std::int64_t, double, double*, cudaStream_t);
template void Fill(std::int64_t, __nv_bfloat16, __nv_bfloat16*, cudaStream_t);

}  // namespace autocfg::cuda
