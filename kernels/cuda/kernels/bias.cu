#include "kernels/cuda/kernels/bias.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

template <typename T, int N, bool kResidual>
__global__ void __launch_bounds__(kTileThreads)
    AddKernel(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual) {
  const std::int64_t column = ColumnOf() * N, step = RowStep();
  if (column >= width) return;
  float b[N];
  Unpack(Load<N>(bias + column), b);
  for (std::int64_t first = FirstRow(); first < rows; first += kTileRows * step) {
    Vec<T, N> old[kTileRows], more[kTileRows];
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= rows) continue;
      old[k] = Load<N>(y + row * width + column);
      if constexpr (kResidual) more[k] = Load<N>(residual + row * width + column);
    }
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= rows) continue;
      float sum[N], r[N];
      Unpack(old[k], sum);
      if constexpr (kResidual) Unpack(more[k], r);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += kResidual ? b[i] + r[i] : b[i];
      Store(y + row * width + column, PackOf<T>(sum));
    }
  }
}

template <typename T, bool kResidual>
void Add(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual, cudaStream_t stream) {
  WithPacks<T>(width, {y, bias, residual}, [&]<int N>() {
    Launch(AddKernel<T, N, kResidual>, TileShape(rows, width / N), stream, rows, width, y, bias, residual);
  });
}

}  // namespace

template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias, cudaStream_t stream) {
  Add<T, false>(rows, width, y, bias, nullptr, stream);
}

template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual,
                  cudaStream_t stream) {
  Add<T, true>(rows, width, y, bias, residual, stream);
}

template void BiasAdd(std::int64_t, std::int64_t, float*, const float*, cudaStream_t);
template void BiasAdd(std::int64_t, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*, cudaStream_t);
template void BiasResidual(std::int64_t, std::int64_t, float*, const float*, const float*, cudaStream_t);
template void BiasResidual(std::int64_t, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*,
                           const __nv_bfloat16*, cudaStream_t);

}  // namespace autocfg::cuda
