// What the end of a step does with all parameters: sums of squares and AdamW, over lists of tensors, one
// launch for every 256 of them; see Ops. The lists travel in the kernels' parameters: nothing is copied and
// nobody waits. T is float or __nv_bfloat16. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "kernels/cuda/scratch.h"
#include "kernels/ops.h"

namespace autocfg::cuda {

template <typename T>
struct SquaresItem {
  const T* x;
  std::int64_t n;  // at least 1
};

// result[1] += sum of the squares of all elements, in double precision and in an order that the sizes alone
// decide. Moves sizeof(T) bytes an element.
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

// p keep - lr (m / c1) / (sqrt(v / c2) + eps), c1 and c2 the bias corrections (Loshchilov & Hutter 2019), in
// float; the clip factor is made on the device, in double. Moves 20 + 2 sizeof(T) bytes an element, with a
// master copy 28 + sizeof(T).
template <typename T>
void AdamW(std::span<const AdamWItem<T>> items, const AdamWParams& params, cudaStream_t stream);

}  // namespace autocfg::cuda
