#include "kernels/cpu/bias.h"

namespace autocfg::cpu {
template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* yr = y + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) yr[i] += bias[i];
  }
}

template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* yr = y + row * width;
    const T* rr = residual + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) yr[i] += bias[i] + rr[i];
  }
}

// Adds eight rows at a time, which needs fewer passes over dbias and shortens the chain of rounding errors.
template <typename T>
void BiasGradient(std::int64_t rows, std::int64_t width, const T* dy, T* dbias) {
  std::int64_t row = 0;
  for (; row + 8 <= rows; row += 8) {
    const T* r = dy + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const T* c = r + i;
      const T low = (c[0] + c[width]) + (c[2 * width] + c[3 * width]);
      const T high = (c[4 * width] + c[5 * width]) + (c[6 * width] + c[7 * width]);
      dbias[i] += low + high;
    }
  }
  for (; row < rows; ++row) {
    const T* r = dy + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) dbias[i] += r[i];
  }
}

template <typename T>
void ResidualAdd(std::int64_t elements, T* y, const T* residual) {
#pragma omp simd
  for (std::int64_t i = 0; i < elements; ++i) y[i] += residual[i];
}

template void BiasAdd(std::int64_t, std::int64_t, float*, const float*);
template void BiasAdd(std::int64_t, std::int64_t, double*, const double*);
template void BiasResidual(std::int64_t, std::int64_t, float*, const float*, const float*);
template void BiasResidual(std::int64_t, std::int64_t, double*, const double*, const double*);
template void BiasGradient(std::int64_t, std::int64_t, const float*, float*);
template void BiasGradient(std::int64_t, std::int64_t, const double*, double*);
template void ResidualAdd(std::int64_t, float*, const float*);
template void ResidualAdd(std::int64_t, double*, const double*);

}  // namespace autocfg::cpu
