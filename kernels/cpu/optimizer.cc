#include "kernels/cpu/optimizer.h"

#include <cmath>

namespace autocfg::cpu {

template <typename T>
double SumOfSquares(std::int64_t n, const T* x) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(x[i]);
    total += value * value;
  }
  return total;
}

// p (1 - lr wd) - lr (m / c1) / (sqrt(v / c2) + eps), where c1 and c2 are the bias corrections.
template <typename T>
void AdamW(std::int64_t n, T* param, const T* grad, T* m, T* v, double weight_decay, double grad_scale,
           const AdamWParams& params) {
  const T beta1 = static_cast<T>(params.beta1), rest1 = static_cast<T>(1 - params.beta1);
  const T beta2 = static_cast<T>(params.beta2), rest2 = static_cast<T>(1 - params.beta2);
  const T keep = static_cast<T>(1 - params.lr * weight_decay);
  const T step = static_cast<T>(params.lr / params.bias_correction1);
  const T root = static_cast<T>(1 / std::sqrt(params.bias_correction2));
  const T eps = static_cast<T>(params.eps), scale = static_cast<T>(grad_scale);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const T g = grad[i] * scale;
    const T mi = beta1 * m[i] + rest1 * g;
    const T vi = beta2 * v[i] + rest2 * g * g;
    m[i] = mi;
    v[i] = vi;
    // 0 if eps is 0 and no gradient has arrived yet; the parameter is then not updated
    const T divisor = std::sqrt(vi) * root + eps;
    param[i] = param[i] * keep - (divisor > T(0) ? step * mi / divisor : T(0));
  }
}

template double SumOfSquares(std::int64_t, const float*);
template double SumOfSquares(std::int64_t, const double*);
template void AdamW(std::int64_t, float*, const float*, float*, float*, double, double, const AdamWParams&);
template void AdamW(std::int64_t, double*, const double*, double*, double*, double, double,
                    const AdamWParams&);

}  // namespace autocfg::cpu
