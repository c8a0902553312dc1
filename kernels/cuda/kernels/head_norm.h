// RMS norms of the queries and keys of each head, in place; see Ops::HeadNormForward. T is float or
// __nv_bfloat16, computed and accumulated in float. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

struct HeadNormShape {
  std::int64_t tokens, heads, kv_heads, head_dim;

  // Heads of a token that are normalized, and the width of a row of qkv.
  constexpr std::int64_t Normed() const { return heads + kv_heads; }
  constexpr std::int64_t Width() const { return (heads + 2 * kv_heads) * head_dim; }
};

// Normalizes the first Normed() heads of each row of qkv[tokens, Width()]. Writes raw[tokens, Normed()
// head_dim] and rstd[tokens, Normed()]. Memory traffic: 3 tokens Normed() head_dim sizeof(T) bytes.
template <typename T>
void HeadNormForward(const HeadNormShape& shape, T* qkv, const T* gamma_q, const T* gamma_k, float eps,
                     T* raw, float* rstd, cudaStream_t stream);

// Replaces those heads of dqkv by the gradient with respect to `raw`. dgamma_q, dgamma_k (=, or += if
// `accumulate`), in an order that depends only on the shape and the GPU's model. Memory traffic as of the
// forward. Throws std::invalid_argument if a head has more than 256 dims, as attention does.
template <typename T, typename S>
void HeadNormBackward(const HeadNormShape& shape, T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                      const float* rstd, S* dgamma_q, S* dgamma_k, bool accumulate, Scratch& scratch,
                      cudaStream_t stream);

// The steps of RMS norms over all queries of a token and over all its keys; see Ops::QkSquares. A tensor
// group of `ranks` ranks has the heads. sums, rstd and products are [tokens, 2]; gamma_q and dgamma_q are
// [heads head_dim], gamma_k and dgamma_k [kv_heads head_dim]. The order of all sums depends only on the
// shape. Any head_dim.
template <typename T>
void QkSquares(const HeadNormShape& shape, const T* qkv, float* sums, cudaStream_t stream);
template <typename T>
void QkNormForward(const HeadNormShape& shape, std::int64_t ranks, T* qkv, const T* gamma_q, const T* gamma_k,
                   float eps, T* raw, float* rstd, cudaStream_t stream);
template <typename T>
void QkProducts(const HeadNormShape& shape, const T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                const float* rstd, float* products, cudaStream_t stream);
// dgamma_q, dgamma_k (=, or += if `accumulate`).
template <typename T, typename S>
void QkNormBackward(const HeadNormShape& shape, std::int64_t ranks, T* dqkv, const T* raw, const T* gamma_q,
                    const T* gamma_k, const float* rstd, const float* products, S* dgamma_q, S* dgamma_k,
                    bool accumulate, Scratch& scratch, cudaStream_t stream);

}  // namespace autocfg::cuda
