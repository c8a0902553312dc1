#include "kernels/cpu/bias.h"

#include "kernels/cpu/vec_math.h"

namespace autocfg::cpu {
namespace {

// gelu(x) = x (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), and (1 + tanh(u)) / 2 = sigmoid(2u).
template <typename T>
inline constexpr T kTwoU1 = T(2 * 0.797884560802865355879892);
template <typename T>
inline constexpr T kTwoU3 = T(2 * 0.797884560802865355879892 * 0.044715);

}  // namespace

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

// Eight rows at a time: fewer passes over dbias, and a shorter chain of rounding errors.
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
void BiasGelu(std::int64_t rows, std::int64_t width, T* x, const T* bias, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* xr = x + row * width;
    T* yr = y + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const T v = xr[i] + bias[i];
      xr[i] = v;
      yr[i] = v * Sigmoid(v * (kTwoU1<T> + kTwoU3<T> * v * v));
    }
  }
}

// With s = sigmoid(2u):  gelu'(x) = s + x s (1 - s) (2u)'.
template <typename T>
void GeluBackward(std::int64_t elements, const T* x, T* dy) {
#pragma omp simd
  for (std::int64_t i = 0; i < elements; ++i) {
    const T v = x[i];
    const T s = Sigmoid(v * (kTwoU1<T> + kTwoU3<T> * v * v));
    const T slope = kTwoU1<T> + T(3) * kTwoU3<T> * v * v;
    dy[i] *= s + v * slope * s * (T(1) - s);
  }
}

template void BiasAdd(std::int64_t, std::int64_t, float*, const float*);
template void BiasAdd(std::int64_t, std::int64_t, double*, const double*);
template void BiasResidual(std::int64_t, std::int64_t, float*, const float*, const float*);
template void BiasResidual(std::int64_t, std::int64_t, double*, const double*, const double*);
template void BiasGradient(std::int64_t, std::int64_t, const float*, float*);
template void BiasGradient(std::int64_t, std::int64_t, const double*, double*);
template void BiasGelu(std::int64_t, std::int64_t, float*, const float*, float*);
template void BiasGelu(std::int64_t, std::int64_t, double*, const double*, double*);
template void GeluBackward(std::int64_t, const float*, float*);
template void GeluBackward(std::int64_t, const double*, double*);

}  // namespace autocfg::cpu
