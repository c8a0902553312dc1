// The steps of vocabulary-parallel cross-entropy on one rank's columns; see Ops. T: float, double. Pure
// functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

template <typename T>
void CrossEntropyMax(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits, T* max);

// sums[2,rows]. Targets outside [start, start + valid) are other ranks'.
template <typename T>
void CrossEntropySum(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits, const T* max,
                     const std::int32_t* targets, std::int64_t start, T* sums);

// Sum over the rows of log(sums[0,t]) - sums[1,t].
template <typename T>
double CrossEntropyLoss(std::int64_t rows, const T* sums);

template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, T* logits, const T* sums,
                          const std::int32_t* targets, std::int64_t start, T scale);

}  // namespace autocfg::cpu
