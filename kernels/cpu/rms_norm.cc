#include "kernels/cpu/rms_norm.h"

#include <cmath>

namespace autocfg::cpu {

template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, T eps, T* y, T* rstd) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* xr = x + row * width;
    T* yr = y + row * width;
    T squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += xr[i] * xr[i];
    const T s = T(1) / std::sqrt(squares / static_cast<T>(width) + eps);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) yr[i] = xr[i] * s * gamma[i];
    rstd[row] = s;
  }
}

// With n = x rstd and g = dy gamma:  dx = rstd (g - n mean(g n)),  dgamma = sum dy n.
template <typename T>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const T* rstd, T* dx, bool add, T* dgamma) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* dyr = dy + row * width;
    const T* xr = x + row * width;
    T* dxr = dx + row * width;
    const T s = rstd[row];
    T sum_gn = 0;
#pragma omp simd reduction(+ : sum_gn)
    for (std::int64_t i = 0; i < width; ++i) {
      const T n = xr[i] * s;
      sum_gn += dyr[i] * gamma[i] * n;
      dgamma[i] += dyr[i] * n;
    }
    const T along = s * sum_gn / static_cast<T>(width);
    // NOLINTNEXTLINE(bugprone-branch-clone): they differ; statements under `omp simd` are not compared
    if (add) {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) dxr[i] += s * (dyr[i] * gamma[i] - xr[i] * along);
    } else {  // dx may be dy
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) dxr[i] = s * (dyr[i] * gamma[i] - xr[i] * along);
    }
  }
}

template void RmsNormForward(std::int64_t, std::int64_t, const float*, const float*, float, float*, float*);
template void RmsNormForward(std::int64_t, std::int64_t, const double*, const double*, double, double*,
                             double*);
template void RmsNormBackward(std::int64_t, std::int64_t, const float*, const float*, const float*,
                              const float*, float*, bool, float*);
template void RmsNormBackward(std::int64_t, std::int64_t, const double*, const double*, const double*,
                              const double*, double*, bool, double*);

}  // namespace autocfg::cpu
