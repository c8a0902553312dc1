// Cross-entropy of whole rows, and the steps of cross-entropy on one rank's columns of a split vocabulary
// (Shoeybi et al. 2019). See Ops. logits[rows, vocab], of which the first `valid` columns are real and the
// rest padding; targets[rows]; max[rows]; sums[2, rows]. Where `softcap` is not 0, a logit x counts as
// softcap tanh(x / softcap), and gradients are multiplied by its slope. T: float, double. Exponentials are
// summed in T over 512 columns at a time, and these sums and the losses in double precision. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

// Returns the sum over the rows of log(sum of exp(logits)) - target's logit. Replaces the logits by the
// gradient, scale (softmax - one_hot(target)), 0 in the padding.
template <typename T>
double CrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                    const std::int32_t* targets, T scale, T softcap);

// Writes max and sums[0]: the log-sum-exp of the valid columns, the lowest finite value if there are none;
// and sums[1]: the target's logit, 0 for a target outside [start, start + valid), which belongs to another
// rank.
template <typename T>
void CrossEntropyForward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits,
                         const std::int32_t* targets, std::int64_t start, T softcap, T* max, T* sums);

// sums[0,t] = exp(sums[0,t] - max[t]).
template <typename T>
void CrossEntropyRescale(std::int64_t rows, const T* max, T* sums);

// Writes the log-sum-exp to sums[0,t]. Returns the sum over the rows of sums[0,t] - sums[1,t].
template <typename T>
double CrossEntropyLoss(std::int64_t rows, const T* max, T* sums);

// Replaces the logits by scale (exp(logits - sums[0,t]) - one_hot(target)), 0 in the padding.
template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits, const T* sums,
                          const std::int32_t* targets, std::int64_t start, T scale, T softcap);

}  // namespace autocfg::cpu
