// Causal grouped-query attention by our own kernels, fused and unfused. Fused attention stores no scores:
// tiles of scores are computed, used and discarded with a running softmax; the backward recomputes them from
// the log-sum-exp (Dao et al. 2022; Dao 2023). Layouts and meaning as in Ops::AttentionForward. T is float or
// __nv_bfloat16; sums are float. Fused attention has two paths: tensor cores for bf16 if head_dim is a
// multiple of 8, plain arithmetic for all else. Unfused attention takes the tensor cores for all bf16.
// Deterministic: no atomics, so the same operands give the same bits. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/attention_shape.h"

namespace autocfg::cuda {

// Returns whether fused bf16 attention of this shape takes the tensor cores: rows of heads are loaded 16
// bytes at a time.
inline bool OnTensorCores(const AttentionShape& shape) { return shape.head_dim % 8 == 0; }

// Computes out[B,S,N*D] and lse[B,N,S] from qkv[B,S,(N+2G)D]. Pointers to T are multiples of 16 bytes. Throws
// std::invalid_argument if CheckAttention does.
template <typename T>
void AttentionForward(const AttentionShape& shape, const T* qkv, T* out, float* lse, cudaStream_t stream);

// Writes every element of dqkv[B,S,(N+2G)D], given dout[B,S,N*D] and the results of the forward. `delta` has
// room for AttentionDeltaElements(shape) values. dqkv overlaps no other operand.
template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* out, const float* lse,
                       const T* dout, T* dqkv, float* delta, cudaStream_t stream);

// Computes out[B,S,N*D] and every element of probabilities[B,N,S,S], which hold 0 for later keys. Any
// addresses.
template <typename T>
void UnfusedAttentionForward(const AttentionShape& shape, const T* qkv, T* probabilities, T* out,
                             cudaStream_t stream);

// Writes every element of dqkv, given dout and the results of the unfused forward. `dscores` is room for
// [B,N,S,S]; `delta` as above. Neither dqkv nor dscores overlaps another operand.
template <typename T>
void UnfusedAttentionBackward(const AttentionShape& shape, const T* qkv, const T* probabilities, const T* out,
                              const T* dout, T* dqkv, T* dscores, float* delta, cudaStream_t stream);

}  // namespace autocfg::cuda
