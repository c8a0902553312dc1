// Deterministic sums and maxima over the threads of a warp and of a block.
#pragma once

#include <cuda_runtime.h>

namespace autocfg::cuda {

inline constexpr int kWarp = 32;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// Reduces over the warp; every lane gets the result. Called by all lanes.
template <typename Op, typename T>
__device__ T WarpReduce(T value, Op op) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Reduces over a block of whole warps, at most 1024 threads, in one dimension; every thread gets the result.
// `shared` has room for 32 values and is reusable on return. Called by all threads.
template <typename Op, typename T>
__device__ T BlockReduce(T value, Op op, T identity, T* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = WarpReduce(value, op);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = WarpReduce(lane < warps ? shared[lane] : identity, op);
  __syncthreads();
  return value;
}

}  // namespace autocfg::cuda
