// Attention on the GPU by the implementation that fits: in bf16 cuDNN's fused graphs where cuDNN takes the
// shape, else our own kernels; in float always our own. The environment variable AUTOCFG_ATTENTION forces
// one: "own", or "cudnn", which then throws where cuDNN refuses. Our own kernels give the same bits in every
// run; the last bits of cuDNN's gradient by q may differ (cudnn_attention_graph.h). A shape's first use makes
// cuDNN's plans, which takes up to seconds: ImplementationOf, called before the first step, is one. One rank,
// one thread.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <string>

#include "kernels/cuda/attention_shape.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

enum class AttentionForced { kNone, kOwn, kCudnn };

// The value of AUTOCFG_ATTENTION; null or empty: none. Throws std::invalid_argument for any other word.
AttentionForced ParseAttentionForced(const char* value);

class AttentionChoice {
 public:
  AttentionChoice();  // reads AUTOCFG_ATTENTION
  explicit AttentionChoice(AttentionForced forced) : forced_(forced) {}

  // As in kernels/cuda/attention.h. T is float or __nv_bfloat16. Throw std::invalid_argument where
  // CheckAttention does, DeviceError where a forced cuDNN refuses.
  template <typename T>
  void Forward(const AttentionShape& shape, const T* qkv, T* out, float* lse, Scratch& scratch,
               cudaStream_t stream);
  template <typename T>
  void Backward(const AttentionShape& shape, const T* qkv, const T* out, const float* lse, const T* dout,
                T* dqkv, Scratch& scratch, cudaStream_t stream);

  // Which implementation computes the shape, and why not cuDNN where it could be expected; for logs.
  template <typename T>
  std::string ImplementationOf(const AttentionShape& shape);

 private:
  // Whether cuDNN computes the shape in bf16.
  bool ByCudnn(const AttentionShape& shape);

  AttentionForced forced_;
  CudnnAttention cudnn_;
};

}  // namespace autocfg::cuda
