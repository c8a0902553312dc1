// The ops on all parameters at the end of a step: sums of squares and AdamW, over lists of tensors, one
// launch for every 256 tensors; see Ops. The lists are passed as kernel parameters, so nothing is copied and
// the host does not wait. T is float or __nv_bfloat16. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "kernels/cuda/device/scratch.h"
#include "kernels/ops.h"

namespace autocfg::cuda {

template <typename T>
struct SquaresItem {
  const T* x;
  std::int64_t n;  // at least 1
};

// result[1] += sum of the squares of all elements, in double precision, in an order that depends only on the
// sizes. Memory traffic: sizeof(T) bytes per element.
template <typename T>
void SumOfSquares(std::span<const SquaresItem<T>> items, double* result, Scratch& scratch,
                  cudaStream_t stream);

template <typename T>
struct AdamWItem {
  T* param;
  const float* grad;
  float* master;  // or null
  float* m;
  float* v;
  std::int64_t n;  // at least 1
  float keep;      // 1 - lr * weight decay
};

// p keep - lr (m / c1) / (sqrt(v / c2) + eps), in float, where c1 and c2 are the bias corrections (Loshchilov
// & Hutter 2019). The clip factor is computed on the device, in double. Memory traffic: 20 + 2 sizeof(T)
// bytes per element, with a master copy 28 + sizeof(T).
template <typename T>
void AdamW(std::span<const AdamWItem<T>> items, const AdamWParams& params, cudaStream_t stream);

}  // namespace autocfg::cuda
