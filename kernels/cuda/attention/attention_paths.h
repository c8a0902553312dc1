// Internal to kernels/cuda/attention/attention.h, whose operands and results these are: the two paths of
// fused attention, and what it shares with unfused attention. All require a shape that CheckAttention
// accepts; the tensor core path also requires OnTensorCores. All accumulate in float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention_shape.h"

namespace autocfg::cuda {

// Writes delta[B,N,S], the row sums of dout * out, both [B,S,N,D]. T is float or __nv_bfloat16.
template <typename T>
void AttentionDelta(const AttentionShape& shape, const T* out, const T* dout, float* delta,
                    cudaStream_t stream);

// Writes out and lse.
void TensorAttentionForward(const AttentionShape& shape, const __nv_bfloat16* qkv, __nv_bfloat16* out,
                            float* lse, cudaStream_t stream);
// Writes the q columns of dqkv.
void TensorAttentionQueryGradient(const AttentionShape& shape, const __nv_bfloat16* qkv, const float* lse,
                                  const __nv_bfloat16* dout, const float* delta, __nv_bfloat16* dqkv,
                                  cudaStream_t stream);
// Writes the k and v columns of dqkv.
void TensorAttentionKeyValueGradient(const AttentionShape& shape, const __nv_bfloat16* qkv, const float* lse,
                                     const __nv_bfloat16* dout, const float* delta, __nv_bfloat16* dqkv,
                                     cudaStream_t stream);

// T is float or __nv_bfloat16. The forward writes out and lse, the backward every element of dqkv.
template <typename T>
void PlainAttentionForward(const AttentionShape& shape, const T* qkv, T* out, float* lse,
                           cudaStream_t stream);
template <typename T>
void PlainAttentionBackward(const AttentionShape& shape, const T* qkv, const float* lse, const T* dout,
                            const float* delta, T* dqkv, cudaStream_t stream);

}  // namespace autocfg::cuda
