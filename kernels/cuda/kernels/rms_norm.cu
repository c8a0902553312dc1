#include "kernels/cuda/kernels/norm.cuh"
#include "kernels/cuda/kernels/rms_norm.h"

namespace autocfg::cuda {

template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, float eps, T* y,
                    float* rstd, cudaStream_t stream) {
  NormForward<false>(NormForwardArguments<T>{rows, width, x, gamma, nullptr, eps, y, nullptr, rstd}, stream);
}

template <typename T>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const float* rstd, T* dx, bool add, float* dgamma, Scratch& scratch,
                     cudaStream_t stream) {
  NormBackward<false>(NormBackwardArguments<T>{rows, width, dy, x, gamma, nullptr, rstd, dx, add}, dgamma,
                      nullptr, scratch, stream);
}

template void RmsNormForward(std::int64_t, std::int64_t, const float*, const float*, float, float*, float*,
                             cudaStream_t);
template void RmsNormForward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*, float,
                             __nv_bfloat16*, float*, cudaStream_t);
template void RmsNormBackward(std::int64_t, std::int64_t, const float*, const float*, const float*,
                              const float*, float*, bool, float*, Scratch&, cudaStream_t);
template void RmsNormBackward(std::int64_t, std::int64_t, const __nv_bfloat16*, const __nv_bfloat16*,
                              const __nv_bfloat16*, const float*, __nv_bfloat16*, bool, float*, Scratch&,
                              cudaStream_t);

}  // namespace autocfg::cuda
