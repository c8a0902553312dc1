// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019) over the rows of x[rows, width], forward and
// backward; see Ops. y, dy and dx have the shape of x; gamma, beta, dgamma and dbeta are [width]; mean and
// rstd are [rows], written by the forward and read by the backward. T: float, double; sums are accumulated in
// T. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

// y = (x - mean) rstd gamma + beta, with rstd = 1 / sqrt(variance + eps).
template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta, T eps,
                      T* y, T* mean, T* rstd);

// dx =, or += if `add`; dx may alias dy if not `add`. dgamma, dbeta +=.
template <typename T>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const T* mean, const T* rstd, T* dx, bool add, T* dgamma, T* dbeta);

// y = x rstd gamma, with rstd = 1 / sqrt(mean of x^2 + eps).
template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, T eps, T* y, T* rstd);

// dx =, or += if `add`; dx may alias dy if not `add`. dgamma +=.
template <typename T>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const T* rstd, T* dx, bool add, T* dgamma);

struct HeadNormShape {
  std::int64_t tokens, heads, kv_heads, head_dim;

  std::int64_t normed() const { return heads + kv_heads; }                  // heads of a token
  std::int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }  // of a row of qkv
};

// RMS norms of the queries and keys of each head of qkv[tokens, width], in place: q by gamma_q[head_dim], k
// by gamma_k. raw[tokens, normed head_dim] is what they were, rstd[tokens, normed] as above.
template <typename T>
void HeadNormForward(const HeadNormShape& shape, T* qkv, const T* gamma_q, const T* gamma_k, T eps, T* raw,
                     T* rstd);

// Turns the gradient with respect to the results into that with respect to `raw`, in place. dgamma_q,
// dgamma_k +=.
template <typename T>
void HeadNormBackward(const HeadNormShape& shape, T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                      const T* rstd, T* dgamma_q, T* dgamma_k);

// The steps of RMS norms over all queries of a token and over all its keys; see Ops::QkSquares. A tensor
// group of `ranks` ranks has the heads. sums, rstd and products are [tokens, 2]; gamma_q is [heads head_dim],
// gamma_k [kv_heads head_dim].
template <typename T>
void QkSquares(const HeadNormShape& shape, const T* qkv, T* sums);
template <typename T>
void QkNormForward(const HeadNormShape& shape, std::int64_t ranks, T* qkv, const T* gamma_q, const T* gamma_k,
                   T eps, T* raw, T* rstd);
template <typename T>
void QkProducts(const HeadNormShape& shape, const T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                const T* rstd, T* products);
// dgamma_q, dgamma_k +=.
template <typename T>
void QkNormBackward(const HeadNormShape& shape, std::int64_t ranks, T* dqkv, const T* raw, const T* gamma_q,
                    const T* gamma_k, const T* rstd, const T* products, T* dgamma_q, T* dgamma_k);

}  // namespace autocfg::cpu
