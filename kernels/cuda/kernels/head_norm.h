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
template <typename T>
void HeadNormBackward(const HeadNormShape& shape, T* dqkv, const T* raw, const T* gamma_q, const T* gamma_k,
                      const float* rstd, float* dgamma_q, float* dgamma_k, bool accumulate, Scratch& scratch,
                      cudaStream_t stream);

}  // namespace autocfg::cuda
