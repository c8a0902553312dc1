// Cross-entropy of whole rows, and the steps of cross-entropy on one rank's columns of a split vocabulary
// (Shoeybi et al. 2019). See Ops. T: float, double. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

// Returns the sum over the rows of log(sum of exp(logits)) - target's logit. Replaces the logits by the
// gradient.
template <typename T>
double CrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                    const std::int32_t* targets, T scale);

// Writes max[rows] and sums[2,rows]. Targets outside [start, start + valid) belong to other ranks.
template <typename T>
void CrossEntropyForward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits,
                         const std::int32_t* targets, std::int64_t start, T* max, T* sums);

template <typename T>
void CrossEntropyRescale(std::int64_t rows, const T* max, T* sums);

// Writes the log-sum-exp to sums[0,t]. Returns the sum over the rows of sums[0,t] - sums[1,t].
template <typename T>
double CrossEntropyLoss(std::int64_t rows, const T* max, T* sums);

template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits, const T* sums,
                          const std::int32_t* targets, std::int64_t start, T scale);

}  // namespace autocfg::cpu
