#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/kernels/elementwise.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kFillThreads = 256;
constexpr std::int64_t kMostFillBlocks = 4096;

template <typename T>
__global__ void FillKernel(std::int64_t n, T value, T* y) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = value;
}

template <typename T, int N>
__global__ void __launch_bounds__(kFillThreads)
    ScaleKernel(std::int64_t packs, const T* x, float factor, T* y) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < packs; i += stride) {
    float value[N];
    Unpack(Load<N>(x + i * N), value);
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] *= factor;
    Store(y + i * N, PackOf<T>(value));
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kTileThreads)
    CopyColumnsKernel(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_stride, T* to,
                      std::int64_t to_stride) {
  const std::int64_t column = ColumnOf() * N, step = RowStep();
  if (column >= width) return;
  for (std::int64_t first = FirstRow(); first < rows; first += kTileRows * step) {
    Vec<T, N> read[kTileRows];
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row < rows) read[k] = Load<N>(from + row * from_stride + column);
    }
#pragma unroll
    for (int k = 0; k < kTileRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row < rows) Store(to + row * to_stride + column, read[k]);
    }
  }
}

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

// The value and the derivative of a function at x.
struct Point {
  float value, slope;
};

__device__ float Sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

// x (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), and s = (1 + tanh(u)) / 2 = sigmoid(2u). Slope:
// s + x s (1 - s) (2u)'.
struct Gelu {
  static __device__ Point At(float x) {
    constexpr float kTwoU1 = static_cast<float>(2 * 0.797884560802865355879892);
    constexpr float kTwoU3 = static_cast<float>(2 * 0.797884560802865355879892 * 0.044715);
    const float s = Sigmoid(x * (kTwoU1 + kTwoU3 * x * x));
    return {x * s, s + x * (kTwoU1 + 3.0f * kTwoU3 * x * x) * s * (1.0f - s)};
  }
};

// x P(x), where P is the standard normal distribution function. Slope: P(x) + x p(x), where p is its density.
struct GeluErf {
  static __device__ Point At(float x) {
    const float below = 0.5f + 0.5f * erff(x * 0.707106781186547524f);
    return {x * below, below + x * 0.398942280401432678f * expf(-0.5f * x * x)};
  }
};

// NaN stays NaN; the slope at 0 is 0.
struct Relu {
  static __device__ Point At(float x) { return {x < 0.0f ? 0.0f : x, x > 0.0f ? 1.0f : 0.0f}; }
};

// relu(x)^2.
struct SquaredRelu {
  static __device__ Point At(float x) {
    const float positive = x < 0.0f ? 0.0f : x;
    return {positive * positive, 2.0f * positive};
  }
};

// x sigmoid(x), also called swish.
struct Silu {
  static __device__ Point At(float x) {
    const float s = Sigmoid(x);
    return {x * s, s + x * s * (1.0f - s)};
  }
};

// Returns x + bias, rounded to T.
template <typename T, int N>
__device__ Vec<T, N> AddTo(const Vec<T, N>& x, const float (&bias)[N]) {
  float sum[N];
  Unpack(x, sum);
#pragma unroll
  for (int i = 0; i < N; ++i) sum[i] += bias[i];
  return PackOf<T>(sum);
}

template <typename F, typename T, int N, bool kGated>
__global__ void __launch_bounds__(kTileThreads)
    ForwardKernel(std::int64_t rows, std::int64_t width, T* x, const T* bias, T* y) {
  const std::int64_t column = ColumnOf() * N, step = RowStep(), wide = kGated ? 2 * width : width;
  constexpr int kRows = kGated ? kTileRows / 2 : kTileRows;
  if (column >= width) return;
  float gate_bias[N] = {}, up_bias[N] = {};
  if (bias != nullptr) {
    Unpack(Load<N>(bias + column), gate_bias);
    if constexpr (kGated) Unpack(Load<N>(bias + width + column), up_bias);
  }
  for (std::int64_t first = FirstRow(); first < rows; first += kRows * step) {
    Vec<T, N> gates[kRows], ups[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= rows) continue;
      gates[k] = Load<N>(x + row * wide + column);
      if constexpr (kGated) ups[k] = Load<N>(x + row * wide + width + column);
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= rows) continue;
      if (bias != nullptr) {
        Store(x + row * wide + column, gates[k] = AddTo(gates[k], gate_bias));
        if constexpr (kGated) Store(x + row * wide + width + column, ups[k] = AddTo(ups[k], up_bias));
      }
      float gate[N], up[N];
      Unpack(gates[k], gate);
      if constexpr (kGated) Unpack(ups[k], up);
#pragma unroll
      for (int i = 0; i < N; ++i) gate[i] = kGated ? F::At(gate[i]).value * up[i] : F::At(gate[i]).value;
      Store(y + row * width + column, PackOf<T>(gate));
    }
  }
}

constexpr int kBackwardRows = 2;  // each has three or five operands

template <typename F, typename T, int N, bool kGated>
__global__ void __launch_bounds__(kTileThreads)
    BackwardKernel(std::int64_t rows, std::int64_t width, const T* x, const T* dy, T* dx) {
  const std::int64_t column = ColumnOf() * N, step = RowStep(), wide = kGated ? 2 * width : width;
  if (column >= width) return;
  for (std::int64_t first = FirstRow(); first < rows; first += kBackwardRows * step) {
    Vec<T, N> gates[kBackwardRows], ups[kBackwardRows], dys[kBackwardRows];
#pragma unroll
    for (int k = 0; k < kBackwardRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= rows) continue;
      gates[k] = Load<N>(x + row * wide + column);
      if constexpr (kGated) ups[k] = Load<N>(x + row * wide + width + column);
      dys[k] = Load<N>(dy + row * width + column);
    }
#pragma unroll
    for (int k = 0; k < kBackwardRows; ++k) {
      const std::int64_t row = first + k * step;
      if (row >= rows) continue;
      float gate[N], up[N], d[N];
      Unpack(gates[k], gate);
      if constexpr (kGated) Unpack(ups[k], up);
      Unpack(dys[k], d);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Point f = F::At(gate[i]);
        gate[i] = kGated ? d[i] * up[i] * f.slope : d[i] * f.slope;
        if constexpr (kGated) up[i] = d[i] * f.value;
      }
      Store(dx + row * wide + column, PackOf<T>(gate));
      if constexpr (kGated) Store(dx + row * wide + width + column, PackOf<T>(up));
    }
  }
}

// Runs body.operator()<F, kGated>() for the given activation.
template <typename Body>
void WithFunction(Activation activation, Body body) {
  switch (activation) {
    case Activation::kGelu: return body.template operator()<Gelu, false>();
    case Activation::kGeluErf: return body.template operator()<GeluErf, false>();
    case Activation::kRelu: return body.template operator()<Relu, false>();
    case Activation::kSquaredRelu: return body.template operator()<SquaredRelu, false>();
    case Activation::kSwiGlu: return body.template operator()<Silu, true>();
    case Activation::kGeGlu: return body.template operator()<Gelu, true>();
  }
  throw std::invalid_argument("activation: unknown activation");
}

}  // namespace

template <typename T>
void Fill(std::int64_t n, T value, T* y, cudaStream_t stream) {
  const unsigned blocks =
      static_cast<unsigned>(std::min<std::int64_t>((n + kFillThreads - 1) / kFillThreads, kMostFillBlocks));
  Launch(FillKernel<T>, {dim3(blocks), dim3(kFillThreads)}, stream, n, value, y);
}

template <typename T>
void Scale(std::int64_t n, const T* x, float factor, T* y, cudaStream_t stream) {
  WithPacks<T>(n, {x, y}, [&]<int N>() {
    const std::int64_t packs = n / N;
    const unsigned blocks = static_cast<unsigned>(
        std::min<std::int64_t>((packs + kFillThreads - 1) / kFillThreads, kMostFillBlocks));
    Launch(ScaleKernel<T, N>, {dim3(blocks), dim3(kFillThreads)}, stream, packs, x, factor, y);
  });
}

template <typename T>
void CopyColumns(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_stride, T* to,
                 std::int64_t to_stride, cudaStream_t stream) {
  // A pack is a power of two, which divides the three if it divides all their bits.
  WithPacks<T>(width | from_stride | to_stride, {from, to}, [&]<int N>() {
    Launch(CopyColumnsKernel<T, N>, TileShape(rows, width / N), stream, rows, width, from, from_stride, to,
           to_stride);
  });
}

template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias, cudaStream_t stream) {
  Add<T, false>(rows, width, y, bias, nullptr, stream);
}

template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual,
                  cudaStream_t stream) {
  Add<T, true>(rows, width, y, bias, residual, stream);
}

template <typename T>
void ActivationForward(Activation activation, std::int64_t rows, std::int64_t width, T* x, const T* bias,
                       T* y, cudaStream_t stream) {
  WithFunction(activation, [&]<typename F, bool kGated>() {
    WithPacks<T>(width, {x, bias, y}, [&]<int N>() {
      Launch(ForwardKernel<F, T, N, kGated>, TileShape(rows, width / N), stream, rows, width, x, bias, y);
    });
  });
}

template <typename T>
void ActivationBackward(Activation activation, std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                        T* dx, cudaStream_t stream) {
  WithFunction(activation, [&]<typename F, bool kGated>() {
    WithPacks<T>(width, {x, dy, dx}, [&]<int N>() {
      Launch(BackwardKernel<F, T, N, kGated>, TileShape(rows, width / N), stream, rows, width, x, dy, dx);
    });
  });
}

template void Fill(std::int64_t, float, float*, cudaStream_t);
template void Fill(std::int64_t, double, double*, cudaStream_t);
template void Fill(std::int64_t, __nv_bfloat16, __nv_bfloat16*, cudaStream_t);
template void Scale(std::int64_t, const float*, float, float*, cudaStream_t);
template void Scale(std::int64_t, const __nv_bfloat16*, float, __nv_bfloat16*, cudaStream_t);
template void CopyColumns(std::int64_t, std::int64_t, const float*, std::int64_t, float*, std::int64_t,
                          cudaStream_t);
template void CopyColumns(std::int64_t, std::int64_t, const __nv_bfloat16*, std::int64_t, __nv_bfloat16*,
                          std::int64_t, cudaStream_t);
template void BiasAdd(std::int64_t, std::int64_t, float*, const float*, cudaStream_t);
template void BiasAdd(std::int64_t, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*, cudaStream_t);
template void BiasResidual(std::int64_t, std::int64_t, float*, const float*, const float*, cudaStream_t);
template void BiasResidual(std::int64_t, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*,
                           const __nv_bfloat16*, cudaStream_t);
template void ActivationForward(Activation, std::int64_t, std::int64_t, float*, const float*, float*,
                                cudaStream_t);
template void ActivationForward(Activation, std::int64_t, std::int64_t, __nv_bfloat16*, const __nv_bfloat16*,
                                __nv_bfloat16*, cudaStream_t);
template void ActivationBackward(Activation, std::int64_t, std::int64_t, const float*, const float*, float*,
                                 cudaStream_t);
template void ActivationBackward(Activation, std::int64_t, std::int64_t, const __nv_bfloat16*,
                                 const __nv_bfloat16*, __nv_bfloat16*, cudaStream_t);

}  // namespace autocfg::cuda
