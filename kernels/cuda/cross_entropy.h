// Cross-entropy of whole rows, and its steps on one rank's columns of a split vocabulary (Shoeybi et al.
// 2019); see Ops. T is float or __nv_bfloat16, computed in float. Logits are worked on in place: there is
// never a second array of their size. A block a row; indices are of 64 bits. The same bits in every run.
// Issued on the stream. Bytes are in units of rows vocab sizeof(T).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

// loss[1] += sum over the rows of log(sum of exp(logits)) - target's logit, in double precision; logits
// become scale (softmax - one_hot(target)), rounded once, 0 in the padding. Moves 2 where a row is still in
// the cache when its block reads it again, else 3.
template <typename T>
void CrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                  const std::int32_t* targets, float scale, double* loss, Scratch& scratch,
                  cudaStream_t stream);

// max[rows], sums[0, rows]: log-sum-exp of the valid columns, the lowest finite float where there is none.
// sums[1, rows]: the target's logit, 0 where the target is not in [start, start + valid). Moves 1.
template <typename T>
void CrossEntropyForward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits,
                         const std::int32_t* targets, std::int64_t start, float* max, float* sums,
                         cudaStream_t stream);

// sums[0, t] = exp(sums[0, t] - max[t]).
void CrossEntropyRescale(std::int64_t rows, const float* max, float* sums, cudaStream_t stream);

// sums[0, t] = max[t] + log(sums[0, t]); loss[1] += sum over the rows of sums[0, t] - sums[1, t], in double
// precision, without those whose sums[0, t] is the lowest finite float.
void CrossEntropyLoss(std::int64_t rows, const float* max, float* sums, double* loss, Scratch& scratch,
                      cudaStream_t stream);

// logits become scale (exp(logit - sums[0, t]) - one_hot(target)), rounded once, 0 in the padding. Moves 2.
template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                          const float* sums, const std::int32_t* targets, std::int64_t start, float scale,
                          cudaStream_t stream);

}  // namespace autocfg::cuda
