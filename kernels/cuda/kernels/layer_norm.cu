#include "kernels/cuda/kernels/layer_norm.h"
#include "kernels/cuda/kernels/norm.cuh"

namespace autocfg::cuda {

template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta,
                      float eps, T* y, float* mean, float* rstd, cudaStream_t stream) {
  NormForward<true>(NormForwardArguments<T>{rows, width, x, gamma, beta, eps, y, mean, rstd}, stream);
}

template <typename T>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const float* mean, const float* rstd, T* dx, bool add, float* dgamma, float* dbeta,
                       Scratch& scratch, cudaStream_t stream) {
  NormBackward<true>(NormBackwardArguments<T>{rows, width, dy, x, gamma, mean, rstd, dx, add}, dgamma, dbeta,
                     scratch, stream);
}

template void LayerNormForward(std::int64_t, std::int64_t, const float*, const float*, const float*, float,
                               float*, float*, float*, cudaStream_t);
template void LayerNormForward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                               const __nv_bfloat16*, float, __nv_bfloat16*, float*, float*, cudaStream_t);
template void LayerNormBackward(std::int64_t, std::int64_t, const float*, const float*, const float*,
                                const float*, const float*, float*, bool, float*, float*, Scratch&,
                                cudaStream_t);
template void LayerNormBackward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                                const __nv_bfloat16*, const float*, const float*, __nv_bfloat16*, bool,
                                float*, float*, Scratch&, cudaStream_t);

}  // namespace autocfg::cuda
