// Selects the attention implementation on the GPU. In bf16: cuDNN's fused graphs if cuDNN supports the shape,
// else our own kernels, which also compute every attention with ALiBi, a soft cap or a window. In float:
// always our own kernels. The environment variable AUTOCFG_ATTENTION forces one: "own", or "cudnn", which
// throws if cuDNN refuses. Our own kernels are deterministic. The last bits of cuDNN's gradient with respect
// to q may differ between runs (cudnn_attention_graph.h). The first use of a shape builds cuDNN's plans,
// which takes up to seconds. To do that before the first step, call ImplementationOf. One rank, one thread.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <string>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/cudnn/cudnn_attention.h"
#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

enum class AttentionForced { kNone, kOwn, kCudnn };

// Parses the value of AUTOCFG_ATTENTION; null or empty means none. Throws std::invalid_argument for any other
// word.
AttentionForced ParseAttentionForced(const char* value);

class AttentionChoice {
 public:
  AttentionChoice();  // reads AUTOCFG_ATTENTION
  explicit AttentionChoice(AttentionForced forced) : forced_(forced) {}

  // As in kernels/cuda/attention/attention.h. T is float or __nv_bfloat16. Throws std::invalid_argument if
  // CheckAttention does, and DeviceError if cuDNN is forced and refuses.
  template <typename T>
  void Forward(const AttentionShape& shape, const T* qkv, T* out, float* lse, Scratch& scratch,
               cudaStream_t stream);
  template <typename T>
  void Backward(const AttentionShape& shape, const T* qkv, const T* out, const float* lse, const T* dout,
                T* dqkv, Scratch& scratch, cudaStream_t stream);

  // Returns which implementation computes the shape and, if cuDNN could be expected but is not used, why. For
  // logs.
  template <typename T>
  std::string ImplementationOf(const AttentionShape& shape);

 private:
  // Returns whether cuDNN computes the shape in bf16.
  bool ByCudnn(const AttentionShape& shape);

  AttentionForced forced_;
  CudnnAttention cudnn_;
};

}  // namespace autocfg::cuda
