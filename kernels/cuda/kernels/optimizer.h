// The ops on all parameters at the end of a step: sums of squares and updates, over lists of tensors, one
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

// What the pointers of UpdateItem point at: kF32 or kBF16. The gradient and the master copy are kF32 if the
// parameter is.
struct UpdateTypes {
  DType param, gradient, moment, master;
};

struct UpdateItem {
  void* param;
  const void* gradient;
  void* master;    // or null
  void *m, *v;     // null where the update has none
  std::int64_t n;  // at least 1
  float decay;     // AdamW: 1 - lr * weight decay; Sgd: weight decay
};

// Update by the formulas of Ops, in float, and round to the types of the states. The clip factor is computed
// on the device, in double. Memory traffic: reads the gradient; reads and writes the moments, and the master
// copy or else the parameter; writes a parameter that has a copy.
void AdamW(std::span<const UpdateItem> items, const UpdateTypes& types, const UpdateParams& params,
           cudaStream_t stream);
void Sgd(std::span<const UpdateItem> items, const UpdateTypes& types, const UpdateParams& params,
         cudaStream_t stream);

}  // namespace autocfg::cuda
