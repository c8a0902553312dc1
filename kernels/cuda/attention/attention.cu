#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/number.cuh"
#include "kernels/cuda/primitives/reduce.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 256;

// delta[B,N,S] = row sums of dout * out, both [B,S,N,D]. The softmax's gradient subtracts it from each row.
// One warp per row.
template <typename T>
__global__ void DeltaKernel(AttentionShape shape, const T* out, const T* dout, float* delta) {
  const std::int64_t rows = shape.batch * shape.seq_len * shape.heads;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* o = out + row * shape.head_dim;
  const T* g = dout + row * shape.head_dim;
  float sum = 0;
  for (int d = lane; d < shape.head_dim; d += kWarp) sum += ToFloat(o[d]) * ToFloat(g[d]);
  sum = WarpReduce(sum, Sum());
  if (lane != 0) return;
  const std::int64_t head = row % shape.heads, token = row / shape.heads;
  delta[(token / shape.seq_len * shape.heads + head) * shape.seq_len + token % shape.seq_len] = sum;
}

}  // namespace

template <typename T>
void AttentionDelta(const AttentionShape& shape, const T* out, const T* dout, float* delta,
                    cudaStream_t stream) {
  const unsigned blocks = CeilDiv(shape.batch * shape.seq_len * shape.heads, kThreads / kWarp);
  Launch(DeltaKernel<T>, {dim3(blocks), dim3(kThreads)}, stream, shape, out, dout, delta);
}

template <typename T>
void AttentionForward(const AttentionShape& shape, const T* qkv, T* out, float* lse, cudaStream_t stream) {
  CheckAttention(shape);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (OnTensorCores(shape)) return TensorAttentionForward(shape, qkv, out, lse, stream);
  }
  PlainAttentionForward(shape, qkv, out, lse, stream);
}

template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* out, const float* lse,
                       const T* dout, T* dqkv, float* delta, cudaStream_t stream) {
  CheckAttention(shape);
  AttentionDelta(shape, out, dout, delta, stream);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (OnTensorCores(shape)) {
      TensorAttentionKeyValueGradient(shape, qkv, lse, dout, delta, dqkv, stream);
      TensorAttentionQueryGradient(shape, qkv, lse, dout, delta, dqkv, stream);
      return;
    }
  }
  PlainAttentionBackward(shape, qkv, lse, dout, delta, dqkv, stream);
}

template void AttentionDelta(const AttentionShape&, const float*, const float*, float*, cudaStream_t);
template void AttentionDelta(const AttentionShape&, const __nv_bfloat16*, const __nv_bfloat16*, float*,
                             cudaStream_t);
template void AttentionForward(const AttentionShape&, const float*, float*, float*, cudaStream_t);
template void AttentionForward(const AttentionShape&, const __nv_bfloat16*, __nv_bfloat16*, float*,
                               cudaStream_t);
template void AttentionBackward(const AttentionShape&, const float*, const float*, const float*, const float*,
                                float*, float*, cudaStream_t);
template void AttentionBackward(const AttentionShape&, const __nv_bfloat16*, const __nv_bfloat16*,
                                const float*, const __nv_bfloat16*, __nv_bfloat16*, float*, cudaStream_t);

}  // namespace autocfg::cuda
