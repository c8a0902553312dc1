#include <cmath>

#include "kernels/cuda/kernels/rope.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 2;  // pairs of accesses that a thread has in flight

// Rotates element i of a head, together with element i + half, by the angle position * theta^(-i / half).
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    RopeKernel(RopeShape shape, double log2_theta, float sign, T* qkv) {
  const int half = static_cast<int>(shape.head_dim / 2);
  float* cosines = reinterpret_cast<float*>(SharedMemory());
  float* sines = cosines + half;
  const double position = static_cast<double>(blockIdx.x);
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kThreads) {
    constexpr double kByPi = 0.318309886183790671538;
    const double turns = position * exp2(-log2_theta * i / half) * kByPi;  // in half turns
    const double rest = turns - 2.0 * rint(0.5 * turns);
    float sine, cosine;
    sincospif(static_cast<float>(rest), &sine, &cosine);
    cosines[i] = cosine;
    sines[i] = sign * sine;
  }
  __syncthreads();
  T* row = qkv + (blockIdx.y * shape.seq_len + blockIdx.x) * shape.width;
  const int packs = half / N, all = static_cast<int>(shape.heads) * packs;
  for (int first = static_cast<int>(threadIdx.x); first < all; first += kAtOnce * kThreads) {
    Vec<T, N> lows[kAtOnce], highs[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int unit = first + k * kThreads, head = unit / packs, i = (unit - head * packs) * N;
      if (unit >= all) continue;
      lows[k] = Load<N>(row + head * shape.head_dim + i);
      highs[k] = Load<N>(row + head * shape.head_dim + i + half);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int unit = first + k * kThreads, head = unit / packs, i = (unit - head * packs) * N;
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

}  // namespace

template <typename T>
void Rope(const RopeShape& shape, double theta, bool inverse, T* qkv, cudaStream_t stream) {
  const LaunchShape launch{dim3(static_cast<unsigned>(shape.seq_len), static_cast<unsigned>(shape.batch)),
                           dim3(kThreads), static_cast<std::size_t>(shape.head_dim) * sizeof(float)};
  const auto start = [&]<int N>() {
    Launch(RopeKernel<T, N>, launch, stream, shape, std::log2(theta), inverse ? -1.0f : 1.0f, qkv);
  };
  if (InPacks<T>(shape.width, {qkv}) && shape.head_dim / 2 % kPack<T> == 0) {
    start.template operator()<kPack<T>>();
  } else {
    start.template operator()<1>();
  }
}

template void Rope(const RopeShape&, double, bool, float*, cudaStream_t);
template void Rope(const RopeShape&, double, bool, __nv_bfloat16*, cudaStream_t);

}  // namespace autocfg::cuda
