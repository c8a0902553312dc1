// Causal grouped-query attention in bf16 by cuDNN's fused graphs (cudnn_attention_graph.h). Layouts and
// meaning as in kernels/cuda/attention/attention.h. Plans are built at the first use of a shape, which takes
// up to seconds, and kept. One rank, one thread.
//
// Not confirmed on a GPU yet: the numbers that plans compute, and their speed. Confirmed without one, with
// cuDNN 9.19: on a described A100, H200 and B200, both graphs become plans of the fused kernels for exactly
// that generation. Their workspace does not grow with the square of the sequence (tests/kernels/cudnn).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <string_view>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

// Why cuDNN does not compute scores of some forms: our graphs do not have them.
inline constexpr std::string_view kNoAlibi = "its graphs have no linear bias of the scores (ALiBi)",
                                  kNoSoftCap = "its graphs have no soft cap of the scores",
                                  kNoWindow = "its graphs have no sliding window";

// Returns which of these holds for the shape; empty if none.
inline std::string_view ScoreRefusal(const AttentionShape& shape) {
  if (shape.HasAlibi()) return kNoAlibi;
  if (shape.softcap != 0) return kNoSoftCap;
  return shape.window != 0 ? kNoWindow : "";
}

class CudnnAttention {
 public:
  CudnnAttention();
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Returns why cuDNN does not compute the shape, in one line; empty if it computes both directions. Reasons:
  // cuDNN is not installed (cudnn_api.h), it refuses (IsRefusal of cudnn_descriptor.h), or its version is
  // known to compute the shape wrongly (CudnnAttentionFault), or the form of the scores (ScoreRefusal).
  // Throws DeviceError for all other failures and DeviceOutOfMemory if memory does not suffice; those do not
  // select other kernels.
  const std::string& Refusal(const AttentionShape& shape);

  // Both require a shape that is not refused and pointers that are multiples of 16 bytes. Throw DeviceError,
  // DeviceOutOfMemory.
  void Forward(const AttentionShape& shape, const __nv_bfloat16* qkv, __nv_bfloat16* out, float* lse,
               Scratch& scratch, cudaStream_t stream);
  void Backward(const AttentionShape& shape, const __nv_bfloat16* qkv, const __nv_bfloat16* out,
                const float* lse, const __nv_bfloat16* dout, __nv_bfloat16* dqkv, Scratch& scratch,
                cudaStream_t stream);

  // Returns the implementation of a shape, in one line: cuDNN's version and its kernels in each direction
  // and, if they are not from the engine that cuDNN prefers, why; else the refusal. For logs; not cheap.
  std::string Description(const AttentionShape& shape);

  static std::string Version();  // "9.19.0"; throws LibraryMissing

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace autocfg::cuda
