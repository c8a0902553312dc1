#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/cpu/vec_math.h"

namespace autocfg::cpu {
namespace {

// The value and the derivative of a function at x, computed without branches.
template <typename T>
struct Point {
  T value, slope;
};

// x (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), and s = (1 + tanh(u)) / 2 = sigmoid(2u). Slope:
// s + x s (1 - s) (2u)'.
struct Gelu {
  template <typename T>
  [[gnu::always_inline]] static Point<T> At(T x) {
    constexpr T kTwoU1 = T(2 * 0.797884560802865355879892),
                kTwoU3 = T(2 * 0.797884560802865355879892 * 0.044715);
    const T s = Sigmoid(x * (kTwoU1 + kTwoU3 * x * x));
    return {x * s, s + x * (kTwoU1 + T(3) * kTwoU3 * x * x) * s * (T(1) - s)};
  }
};

// x P(x), where P is the standard normal distribution function. Slope: P(x) + x p(x), where p is its density.
struct GeluErf {
  template <typename T>
  [[gnu::always_inline]] static Point<T> At(T x) {
    const NormalPoint<T> normal = NormalAt(x);
    return {x * normal.below, normal.below + x * normal.density};
  }
};

// NaN stays NaN; the slope at 0 is 0.
struct Relu {
  template <typename T>
  [[gnu::always_inline]] static Point<T> At(T x) {
    return {x < T(0) ? T(0) : x, x > T(0) ? T(1) : T(0)};
  }
};

// relu(x)^2.
struct SquaredRelu {
  template <typename T>
  [[gnu::always_inline]] static Point<T> At(T x) {
    const T positive = x < T(0) ? T(0) : x;
    return {positive * positive, T(2) * positive};
  }
};

// x sigmoid(x), also called swish.
struct Silu {
  template <typename T>
  [[gnu::always_inline]] static Point<T> At(T x) {
    const T s = Sigmoid(x);
    return {x * s, s + x * s * (T(1) - s)};
  }
};

template <typename F, typename T>
AUTOCFG_WIDE_VECTORS void Forward(std::int64_t rows, std::int64_t width, T* x, const T* bias, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* xr = x + row * width;
    T* yr = y + row * width;
    // NOLINTNEXTLINE(bugprone-branch-clone): they differ; statements under `omp simd` are not compared
    if (bias == nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) yr[i] = F::At(xr[i]).value;
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        const T v = xr[i] + bias[i];
        xr[i] = v;
        yr[i] = F::At(v).value;
      }
    }
  }
}

template <typename F, typename T>
AUTOCFG_WIDE_VECTORS void Backward(std::int64_t elements, const T* x, const T* dy, T* dx) {
#pragma omp simd
  for (std::int64_t i = 0; i < elements; ++i) dx[i] = dy[i] * F::At(x[i]).slope;
}

template <typename F, typename T>
AUTOCFG_WIDE_VECTORS void GatedForward(std::int64_t rows, std::int64_t width, T* x, const T* bias, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* gate = x + row * 2 * width;
    T* up = gate + width;
    T* yr = y + row * width;
    // NOLINTNEXTLINE(bugprone-branch-clone): they differ; statements under `omp simd` are not compared
    if (bias == nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) yr[i] = F::At(gate[i]).value * up[i];
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        const T g = gate[i] + bias[i], u = up[i] + bias[width + i];
        gate[i] = g;
        up[i] = u;
        yr[i] = F::At(g).value * u;
      }
    }
  }
}

template <typename F, typename T>
AUTOCFG_WIDE_VECTORS void GatedBackward(std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                                        T* dx) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gate = x + row * 2 * width;
    const T* up = gate + width;
    const T* dyr = dy + row * width;
    T* dgate = dx + row * 2 * width;
    T* dup = dgate + width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const Point<T> f = F::At(gate[i]);
      dgate[i] = dyr[i] * up[i] * f.slope;
      dup[i] = dyr[i] * f.value;
    }
  }
}

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

template <typename T>
void Scale(std::int64_t elements, const T* x, T factor, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < elements; ++i) y[i] = x[i] * factor;
}

template <typename T>
void CopyColumns(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_stride, T* to,
                 std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_stride, width, to + r * to_stride);
}

template <typename T>
void ActivationForward(Activation activation, std::int64_t rows, std::int64_t width, T* x, const T* bias,
                       T* y) {
  switch (activation) {
    case Activation::kGelu: return Forward<Gelu>(rows, width, x, bias, y);
    case Activation::kGeluErf: return Forward<GeluErf>(rows, width, x, bias, y);
    case Activation::kRelu: return Forward<Relu>(rows, width, x, bias, y);
    case Activation::kSquaredRelu: return Forward<SquaredRelu>(rows, width, x, bias, y);
    case Activation::kSwiGlu: return GatedForward<Silu>(rows, width, x, bias, y);
    case Activation::kGeGlu: return GatedForward<Gelu>(rows, width, x, bias, y);
  }
  throw std::invalid_argument("activation_forward: unknown activation");
}

template <typename T>
void ActivationBackward(Activation activation, std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                        T* dx) {
  switch (activation) {
    case Activation::kGelu: return Backward<Gelu>(rows * width, x, dy, dx);
    case Activation::kGeluErf: return Backward<GeluErf>(rows * width, x, dy, dx);
    case Activation::kRelu: return Backward<Relu>(rows * width, x, dy, dx);
    case Activation::kSquaredRelu: return Backward<SquaredRelu>(rows * width, x, dy, dx);
    case Activation::kSwiGlu: return GatedBackward<Silu>(rows, width, x, dy, dx);
    case Activation::kGeGlu: return GatedBackward<Gelu>(rows, width, x, dy, dx);
  }
  throw std::invalid_argument("activation_backward: unknown activation");
}

template void BiasAdd(std::int64_t, std::int64_t, float*, const float*);
template void BiasAdd(std::int64_t, std::int64_t, double*, const double*);
template void BiasResidual(std::int64_t, std::int64_t, float*, const float*, const float*);
template void BiasResidual(std::int64_t, std::int64_t, double*, const double*, const double*);
template void BiasGradient(std::int64_t, std::int64_t, const float*, float*);
template void BiasGradient(std::int64_t, std::int64_t, const double*, double*);
template void ResidualAdd(std::int64_t, float*, const float*);
template void ResidualAdd(std::int64_t, double*, const double*);
template void Scale(std::int64_t, const float*, float, float*);
template void Scale(std::int64_t, const double*, double, double*);
template void CopyColumns(std::int64_t, std::int64_t, const float*, std::int64_t, float*, std::int64_t);
template void CopyColumns(std::int64_t, std::int64_t, const double*, std::int64_t, double*, std::int64_t);
template void ActivationForward(Activation, std::int64_t, std::int64_t, float*, const float*, float*);
template void ActivationForward(Activation, std::int64_t, std::int64_t, double*, const double*, double*);
template void ActivationBackward(Activation, std::int64_t, std::int64_t, const float*, const float*, float*);
template void ActivationBackward(Activation, std::int64_t, std::int64_t, const double*, const double*,
                                 double*);

}  // namespace autocfg::cpu
