// Causal grouped-query attention in bf16 by cuDNN's fused graphs (cudnn_attention_graph.h); layouts and
// meaning as in kernels/cuda/attention.h. Plans are made when a shape is first asked for, which takes up to
// seconds, and kept. One rank, one thread.
//
// What no GPU has confirmed yet: the numbers that plans compute, and their speed. Confirmed without one, with
// cuDNN 9.19: on a described A100, H200 and B200 both graphs become plans of the fused kernels for that very
// generation, whose workspace does not grow with the square of the sequence (tests/kernels/cudnn).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "kernels/cuda/attention_shape.h"
#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

class CudnnAttention {
 public:
  CudnnAttention();
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Why cuDNN does not compute the shape, in one line; empty where it computes both directions. It does not
  // where it is not on the machine (cudnn_api.h), where it refuses (IsRefusal of cudnn_descriptor.h), and
  // where its version is known to compute the shape wrongly (cudnn_faults.h). Throws DeviceError for all else
  // that it fails of, DeviceOutOfMemory for want of memory: those are no choice of other kernels.
  const std::string& Refusal(const AttentionShape& shape);

  // Both require a shape that is not refused, and pointers that are multiples of 16 bytes. Throw DeviceError,
  // DeviceOutOfMemory.
  void Forward(const AttentionShape& shape, const __nv_bfloat16* qkv, __nv_bfloat16* out, float* lse,
               Scratch& scratch, cudaStream_t stream);
  void Backward(const AttentionShape& shape, const __nv_bfloat16* qkv, const __nv_bfloat16* out,
                const float* lse, const __nv_bfloat16* dout, __nv_bfloat16* dqkv, Scratch& scratch,
                cudaStream_t stream);

  // What computes a shape, in one line: cuDNN's version and its kernels in each direction, and where these
  // are not of the engine that cuDNN prefers, why not; else the refusal. For logs: not cheap.
  std::string Description(const AttentionShape& shape);

  static std::string Version();  // "9.19.0"; throws LibraryMissing

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autocfg::cuda
