#include "kernels/cpu/norm.h"

#include <algorithm>
#include <cmath>

namespace autocfg::cpu {

template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta, T eps,
                      T* y, T* mean, T* rstd) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* xr = x + row * width;
    T* yr = y + row * width;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < width; ++i) sum += xr[i];
    const T m = sum / static_cast<T>(width);
    T squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += (xr[i] - m) * (xr[i] - m);
    const T s = T(1) / std::sqrt(squares / static_cast<T>(width) + eps);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) yr[i] = (xr[i] - m) * s * gamma[i] + beta[i];
    mean[row] = m;
    rstd[row] = s;
  }
}

// With n = (x - mean) rstd and g = dy gamma:
//   dx = rstd (g - mean(g) - n mean(g n)),  dgamma = sum dy n,  dbeta = sum dy.
template <typename T>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const T* mean, const T* rstd, T* dx, bool add, T* dgamma, T* dbeta) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* dyr = dy + row * width;
    const T* xr = x + row * width;
    T* dxr = dx + row * width;
    const T m = mean[row], s = rstd[row];
    T sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
    for (std::int64_t i = 0; i < width; ++i) {
      const T n = (xr[i] - m) * s;
      const T g = dyr[i] * gamma[i];
      sum_g += g;
      sum_gn += g * n;
      dgamma[i] += dyr[i] * n;
      dbeta[i] += dyr[i];
    }
    const T mean_g = sum_g / static_cast<T>(width), mean_gn = sum_gn / static_cast<T>(width);
    // NOLINTNEXTLINE(bugprone-branch-clone): they differ; statements under `omp simd` are not compared
    if (add) {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        dxr[i] += s * (dyr[i] * gamma[i] - mean_g - (xr[i] - m) * s * mean_gn);
      }
    } else {  // dx may be dy
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        dxr[i] = s * (dyr[i] * gamma[i] - mean_g - (xr[i] - m) * s * mean_gn);
      }
    }
  }
}

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

template <typename T>
void HeadNormForward(const HeadNormShape& shape, T* qkv, const T* gamma_q, const T* gamma_k, T eps, T* raw,
                     T* rstd) {
  const std::int64_t normed = shape.normed(), width = normed * shape.head_dim;
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    T* row = qkv + token * shape.width();
    T* kept = raw + token * width;
    std::copy_n(row, width, kept);
    RmsNormForward(shape.heads, shape.head_dim, kept, gamma_q, eps, row, rstd + token * normed);
    RmsNormForward(shape.kv_heads, shape.head_dim, kept + shape.heads * shape.head_dim, gamma_k, eps,
                   row + shape.heads * shape.head_dim, rstd + token * normed + shape.heads);
  }
}

template <typename T>
void HeadNormBackward(const HeadNormShape& shape, T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                      const T* rstd, T* dgamma_q, T* dgamma_k) {
  const std::int64_t normed = shape.normed(), keys = shape.heads * shape.head_dim;
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    T* row = dqkv + token * shape.width();
    const T* x = raw + token * normed * shape.head_dim;
    const T* s = rstd + token * normed;
    RmsNormBackward(shape.heads, shape.head_dim, row, x, gamma_q, s, row, false, dgamma_q);
    RmsNormBackward(shape.kv_heads, shape.head_dim, row + keys, x + keys, gamma_k, s + shape.heads,
                    row + keys, false, dgamma_k);
  }
}

// Calls body(part, first, width) for q (part 0) and k (part 1) of a row: their first column and their number.
template <typename Body>
void ForQueriesAndKeys(const HeadNormShape& shape, Body body) {
  const std::int64_t queries = shape.heads * shape.head_dim;
  body(0, std::int64_t{0}, queries);
  body(1, queries, shape.kv_heads * shape.head_dim);
}

template <typename T>
void QkSquares(const HeadNormShape& shape, const T* qkv, T* sums) {
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    ForQueriesAndKeys(shape, [&](int part, std::int64_t first, std::int64_t width) {
      const T* x = qkv + token * shape.width() + first;
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
      sums[2 * token + part] = sum;
    });
  }
}

template <typename T>
void QkNormForward(const HeadNormShape& shape, std::int64_t ranks, T* qkv, const T* gamma_q, const T* gamma_k,
                   T eps, T* raw, T* rstd) {
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    ForQueriesAndKeys(shape, [&](int part, std::int64_t first, std::int64_t width) {
      T* x = qkv + token * shape.width() + first;
      T* kept = raw + token * shape.normed() * shape.head_dim + first;
      const T* gamma = part == 0 ? gamma_q : gamma_k;
      T& scale = rstd[2 * token + part];
      scale = T(1) / std::sqrt(scale / static_cast<T>(ranks * width) + eps);
      const T s = scale;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        kept[i] = x[i];
        x[i] *= s * gamma[i];
      }
    });
  }
}

template <typename T>
void QkProducts(const HeadNormShape& shape, const T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                const T* rstd, T* products) {
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    ForQueriesAndKeys(shape, [&](int part, std::int64_t first, std::int64_t width) {
      const T* dy = dqkv + token * shape.width() + first;
      const T* x = raw + token * shape.normed() * shape.head_dim + first;
      const T* gamma = part == 0 ? gamma_q : gamma_k;
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < width; ++i) sum += dy[i] * gamma[i] * x[i];
      products[2 * token + part] = sum * rstd[2 * token + part];
    });
  }
}

template <typename T>
void QkNormBackward(const HeadNormShape& shape, std::int64_t ranks, T* dqkv, const T* raw, const T* gamma_q,
                    const T* gamma_k, const T* rstd, const T* products, T* dgamma_q, T* dgamma_k) {
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    ForQueriesAndKeys(shape, [&](int part, std::int64_t first, std::int64_t width) {
      T* dy = dqkv + token * shape.width() + first;
      const T* x = raw + token * shape.normed() * shape.head_dim + first;
      const T* gamma = part == 0 ? gamma_q : gamma_k;
      T* dgamma = part == 0 ? dgamma_q : dgamma_k;
      const T s = rstd[2 * token + part], mean = products[2 * token + part] / static_cast<T>(ranks * width);
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        const T n = x[i] * s;
        dgamma[i] += dy[i] * n;
        dy[i] = s * (dy[i] * gamma[i] - n * mean);
      }
    });
  }
}

template void LayerNormForward(std::int64_t, std::int64_t, const float*, const float*, const float*, float,
                               float*, float*, float*);
template void LayerNormForward(std::int64_t, std::int64_t, const double*, const double*, const double*,
                               double, double*, double*, double*);
template void LayerNormBackward(std::int64_t, std::int64_t, const float*, const float*, const float*,
                                const float*, const float*, float*, bool, float*, float*);
template void LayerNormBackward(std::int64_t, std::int64_t, const double*, const double*, const double*,
                                const double*, const double*, double*, bool, double*, double*);
template void RmsNormForward(std::int64_t, std::int64_t, const float*, const float*, float, float*, float*);
template void RmsNormForward(std::int64_t, std::int64_t, const double*, const double*, double, double*,
                             double*);
template void RmsNormBackward(std::int64_t, std::int64_t, const float*, const float*, const float*,
                              const float*, float*, bool, float*);
template void RmsNormBackward(std::int64_t, std::int64_t, const double*, const double*, const double*,
                              const double*, double*, bool, double*);

template void HeadNormForward(const HeadNormShape&, float*, const float*, const float*, float, float*,
                              float*);
template void HeadNormForward(const HeadNormShape&, double*, const double*, const double*, double, double*,
                              double*);
template void HeadNormBackward(const HeadNormShape&, float*, const float*, const float*, const float*,
                               const float*, float*, float*);
template void HeadNormBackward(const HeadNormShape&, double*, const double*, const double*, const double*,
                               const double*, double*, double*);

template void QkSquares(const HeadNormShape&, const float*, float*);
template void QkNormForward(const HeadNormShape&, std::int64_t, float*, const float*, const float*, float,
                            float*, float*);
template void QkProducts(const HeadNormShape&, const float*, const float*, const float*, const float*,
                         const float*, float*);
template void QkNormBackward(const HeadNormShape&, std::int64_t, float*, const float*, const float*,
                             const float*, const float*, const float*, float*, float*);
template void QkSquares(const HeadNormShape&, const double*, double*);
template void QkNormForward(const HeadNormShape&, std::int64_t, double*, const double*, const double*, double,
                            double*, double*);
template void QkProducts(const HeadNormShape&, const double*, const double*, const double*, const double*,
                         const double*, double*);
template void QkNormBackward(const HeadNormShape&, std::int64_t, double*, const double*, const double*,
                             const double*, const double*, const double*, double*, double*);

}  // namespace autocfg::cpu
