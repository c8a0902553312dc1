// Cross-entropy of whole rows, and the steps of cross-entropy on one rank's columns of a split vocabulary
// (Shoeybi et al. 2019). See Ops. T is float or __nv_bfloat16, computed in float. Logits are processed in
// place; no second array of their size exists. Where `softcap` is not 0, a logit x counts as softcap tanh(x /
// softcap), and gradients are multiplied by its slope. One block per row; 64-bit indices. Deterministic.
// Issued on the stream. Memory traffic is given in units of rows vocab sizeof(T) bytes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

// loss[1] += sum over the rows of log(sum of exp(logits)) - target's logit, in double precision. logits
// become scale (softmax - one_hot(target)), rounded once, 0 in the padding. Memory traffic: 2 if a row is
// still in the cache when its block reads it again, else 3.
template <typename T>
void CrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                  const std::int32_t* targets, float scale, float softcap, double* loss, Scratch& scratch,
                  cudaStream_t stream);

// max[rows], sums[0, rows]: log-sum-exp of the valid columns, or the lowest finite float if there are none.
// sums[1, rows]: the target's logit, or 0 if the target is not in [start, start + valid). Memory traffic: 1.
template <typename T>
void CrossEntropyForward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits,
                         const std::int32_t* targets, std::int64_t start, float softcap, float* max,
                         float* sums, cudaStream_t stream);

// sums[0, t] = exp(sums[0, t] - max[t]).
void CrossEntropyRescale(std::int64_t rows, const float* max, float* sums, cudaStream_t stream);

// sums[0, t] = max[t] + log(sums[0, t]). loss[1] += sum over the rows of sums[0, t] - sums[1, t], in double
// precision. Skips rows whose sums[0, t] is the lowest finite float.
void CrossEntropyLoss(std::int64_t rows, const float* max, float* sums, double* loss, Scratch& scratch,
                      cudaStream_t stream);

// logits become scale (exp(logit - sums[0, t]) - one_hot(target)), rounded once, 0 in the padding. Memory
// traffic: 2.
template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                          const float* sums, const std::int32_t* targets, std::int64_t start, float scale,
                          float softcap, cudaStream_t stream);

}  // namespace autocfg::cuda
