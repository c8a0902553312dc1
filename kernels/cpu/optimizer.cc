#include "kernels/cpu/optimizer.h"

#include <cmath>
#include <type_traits>

namespace autocfg::cpu {
namespace {

template <typename S>
auto Widen(S value) {
  if constexpr (std::is_same_v<S, Bf16Bits>) {
    return FromBf16(value);
  } else {
    return value;
  }
}

template <typename S, typename T>
S Narrow(T value) {
  if constexpr (std::is_same_v<S, Bf16Bits>) {
    return ToBf16(value);
  } else {
    return value;
  }
}

}  // namespace

template <typename T>
double SumOfSquares(std::int64_t n, const T* x) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(Widen(x[i]));
    total += value * value;
  }
  return total;
}

template <typename T, typename Gradient, typename Moment>
void AdamW(std::int64_t n, T* param, const Gradient* grad, Moment* m, Moment* v, double weight_decay,
           double grad_scale, const UpdateParams& params) {
  const T beta1 = static_cast<T>(params.beta1), rest1 = static_cast<T>(1 - params.beta1);
  const T beta2 = static_cast<T>(params.beta2), rest2 = static_cast<T>(1 - params.beta2);
  const T keep = static_cast<T>(1 - params.lr * weight_decay);
  const T step = static_cast<T>(params.lr / params.bias_correction1);
  const T root = static_cast<T>(1 / std::sqrt(params.bias_correction2));
  const T eps = static_cast<T>(params.eps), scale = static_cast<T>(grad_scale);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const T g = Widen(grad[i]) * scale;
    const T mi = beta1 * Widen(m[i]) + rest1 * g;
    const T vi = beta2 * Widen(v[i]) + rest2 * g * g;
    m[i] = Narrow<Moment>(mi);
    v[i] = Narrow<Moment>(vi);
    // 0 if eps is 0 and no gradient has arrived yet; the parameter is then not updated
    const T divisor = std::sqrt(vi) * root + eps;
    param[i] = param[i] * keep - (divisor > T(0) ? step * mi / divisor : T(0));
  }
}

template <typename T, typename Gradient, typename Moment>
void Sgd(std::int64_t n, T* param, const Gradient* grad, Moment* m, double weight_decay, double grad_scale,
         const UpdateParams& params) {
  const T momentum = static_cast<T>(params.momentum), lr = static_cast<T>(params.lr);
  const T decay = static_cast<T>(weight_decay), scale = static_cast<T>(grad_scale);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    T change = Widen(grad[i]) * scale + decay * param[i];
    if (m != nullptr) {
      change += momentum * Widen(m[i]);
      m[i] = Narrow<Moment>(change);
    }
    param[i] -= lr * change;
  }
}

template double SumOfSquares(std::int64_t, const float*);
template double SumOfSquares(std::int64_t, const double*);
template double SumOfSquares(std::int64_t, const Bf16Bits*);

template void AdamW(std::int64_t, double*, const double*, double*, double*, double, double,
                    const UpdateParams&);
template void Sgd(std::int64_t, double*, const double*, double*, double, double, const UpdateParams&);
template void AdamW(std::int64_t, float*, const float*, float*, float*, double, double, const UpdateParams&);
template void Sgd(std::int64_t, float*, const float*, float*, double, double, const UpdateParams&);
template void AdamW(std::int64_t, float*, const float*, Bf16Bits*, Bf16Bits*, double, double,
                    const UpdateParams&);
template void Sgd(std::int64_t, float*, const float*, Bf16Bits*, double, double, const UpdateParams&);
template void AdamW(std::int64_t, float*, const Bf16Bits*, float*, float*, double, double,
                    const UpdateParams&);
template void Sgd(std::int64_t, float*, const Bf16Bits*, float*, double, double, const UpdateParams&);
template void AdamW(std::int64_t, float*, const Bf16Bits*, Bf16Bits*, Bf16Bits*, double, double,
                    const UpdateParams&);
template void Sgd(std::int64_t, float*, const Bf16Bits*, Bf16Bits*, double, double, const UpdateParams&);

}  // namespace autocfg::cpu
