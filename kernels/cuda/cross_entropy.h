// The steps of vocabulary-parallel cross-entropy on one rank's columns (Shoeybi et al. 2019); see Ops. T is
// float or __nv_bfloat16, computed in float. Logits are worked on in place: there is never a second array of
// their size. A block a row; indices are of 64 bits. The same bits in every run. Issued on the stream. Bytes
// are in units of rows vocab sizeof(T).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

// max[rows] over the valid columns; the lowest finite float where there is none. Moves 1.
template <typename T>
void CrossEntropyMax(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits, float* max,
                     cudaStream_t stream);

// logits become exp(logit - max) as T holds it, 0 in the padding. sums[2, rows]: the row's sum of
// exponentials, before they are rounded to T; the target's logit - max, 0 where the target is not in [start,
// start + valid). Moves 2.
template <typename T>
void CrossEntropySum(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits, const float* max,
                     const std::int32_t* targets, std::int64_t start, float* sums, cudaStream_t stream);

// loss[1] += sum over the rows of log(sums[0,t]) - sums[1,t], in double precision.
void CrossEntropyLoss(std::int64_t rows, const float* sums, double* loss, Scratch& scratch,
                      cudaStream_t stream);

// logits, the exponentials, become scale (exponential / sums[0,t] - one_hot(target)), rounded once. Moves 2.
template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, T* logits, const float* sums,
                          const std::int32_t* targets, std::int64_t start, float scale, cudaStream_t stream);

}  // namespace autocfg::cuda
