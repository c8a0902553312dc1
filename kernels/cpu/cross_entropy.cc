#include "kernels/cpu/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/vec_math.h"

namespace autocfg::cpu {
namespace {

// Columns whose sum is accumulated in T; the total is accumulated in double precision.
constexpr std::int64_t kChunk = 512;

// Prefetches the elements in [from, from + kChunk), up to `end`, while others are processed. Exponentials
// keep the core so busy that the hardware prefetcher is late; without this, the pass takes twice as long
// (measured).
template <bool kWrite, typename T>
[[gnu::always_inline]] inline void PrefetchChunk(const T* from, const T* end) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t n = std::min<std::int64_t>(kChunk, end - from);
  for (std::int64_t i = 0; i < n; i += kLine) __builtin_prefetch(from + i, kWrite, 2);
}

template <typename T>
[[gnu::always_inline]] inline T RowMax(std::int64_t valid, const T* row) {
  T max = std::numeric_limits<T>::lowest();
#pragma omp simd reduction(max : max)
  for (std::int64_t i = 0; i < valid; ++i) max = row[i] > max ? row[i] : max;
  return max;
}

// Returns the target's logit, or 0 if the target is not in the row.
template <typename T>
T TargetLogit(std::int64_t target, std::int64_t valid, const T* row) {
  return target >= 0 && target < valid ? row[target] : T(0);
}

// Returns the sum over `row` of exp(logit - max). Passes each exponential to store(i, exponential).
template <bool kWrite, typename T, typename Store>
[[gnu::always_inline]] inline double SumOfExponentials(std::int64_t valid, const T* row, T max, const T* end,
                                                       Store store) {
  double total = 0;
  for (std::int64_t first = 0; first < valid; first += kChunk) {
    const std::int64_t last = std::min(valid, first + kChunk);
    PrefetchChunk<kWrite>(row + last, end);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = first; i < last; ++i) {
      const T e = Exp(row[i] - max);
      store(i, e);
      sum += e;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

}  // namespace

template <typename T>
AUTOCFG_WIDE_VECTORS double CrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                                         const std::int32_t* targets, T scale) {
  const T* end = logits + rows * vocab;
  double loss = 0;
  for (std::int64_t t = 0; t < rows; ++t) {
    T* row = logits + t * vocab;
    const T max = RowMax(valid, row), target = TargetLogit(targets[t], valid, row);
    const double sum =
        SumOfExponentials<true>(valid, row, max, end, [&](std::int64_t i, T e) { row[i] = e; });
    loss += std::log(sum) + (static_cast<double>(max) - static_cast<double>(target));
    const T factor = static_cast<T>(static_cast<double>(scale) / sum);
#pragma omp simd
    for (std::int64_t i = 0; i < valid; ++i) row[i] *= factor;
    std::fill(row + valid, row + vocab, T(0));
    if (targets[t] >= 0 && targets[t] < valid) row[targets[t]] -= scale;
  }
  return loss;
}

template <typename T>
AUTOCFG_WIDE_VECTORS void CrossEntropyForward(std::int64_t rows, std::int64_t vocab, std::int64_t valid,
                                              const T* logits, const std::int32_t* targets,
                                              std::int64_t start, T* max, T* sums) {
  const T* end = logits + rows * vocab;
  for (std::int64_t t = 0; t < rows; ++t) {
    const T* row = logits + t * vocab;
    const T most = RowMax(valid, row);
    const double sum = SumOfExponentials<false>(valid, row, most, end, [](std::int64_t, T) {});
    max[t] = valid == 0 ? std::numeric_limits<T>::lowest() : most + static_cast<T>(std::log(sum));
    sums[t] = max[t];
    sums[rows + t] = TargetLogit(targets[t] - start, valid, row);
  }
}

template <typename T>
void CrossEntropyRescale(std::int64_t rows, const T* max, T* sums) {
  for (std::int64_t t = 0; t < rows; ++t) sums[t] = std::exp(sums[t] - max[t]);
}

template <typename T>
double CrossEntropyLoss(std::int64_t rows, const T* max, T* sums) {
  double loss = 0;
  for (std::int64_t t = 0; t < rows; ++t) {
    sums[t] = max[t] + std::log(sums[t]);
    if (sums[t] == std::numeric_limits<T>::lowest()) continue;  // a row without valid columns
    loss += static_cast<double>(sums[t]) - static_cast<double>(sums[rows + t]);
  }
  return loss;
}

template <typename T>
AUTOCFG_WIDE_VECTORS void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, std::int64_t valid,
                                               T* logits, const T* sums, const std::int32_t* targets,
                                               std::int64_t start, T scale) {
  const T* end = logits + rows * vocab;
  for (std::int64_t t = 0; t < rows; ++t) {
    T* row = logits + t * vocab;
    const T log_sum_exp = sums[t];
    for (std::int64_t first = 0; first < valid; first += kChunk) {
      const std::int64_t last = std::min(valid, first + kChunk);
      PrefetchChunk<true>(row + last, end);
#pragma omp simd
      for (std::int64_t i = first; i < last; ++i) row[i] = scale * Exp(row[i] - log_sum_exp);
    }
    std::fill(row + valid, row + vocab, T(0));
    const std::int64_t target = targets[t] - start;
    if (target >= 0 && target < valid) row[target] -= scale;
  }
}

template double CrossEntropy(std::int64_t, std::int64_t, std::int64_t, float*, const std::int32_t*, float);
template double CrossEntropy(std::int64_t, std::int64_t, std::int64_t, double*, const std::int32_t*, double);
template void CrossEntropyForward(std::int64_t, std::int64_t, std::int64_t, const float*, const std::int32_t*,
                                  std::int64_t, float*, float*);
template void CrossEntropyForward(std::int64_t, std::int64_t, std::int64_t, const double*,
                                  const std::int32_t*, std::int64_t, double*, double*);
template void CrossEntropyRescale(std::int64_t, const float*, float*);
template void CrossEntropyRescale(std::int64_t, const double*, double*);
template double CrossEntropyLoss(std::int64_t, const float*, float*);
template double CrossEntropyLoss(std::int64_t, const double*, double*);
template void CrossEntropyBackward(std::int64_t, std::int64_t, std::int64_t, float*, const float*,
                                   const std::int32_t*, std::int64_t, float);
template void CrossEntropyBackward(std::int64_t, std::int64_t, std::int64_t, double*, const double*,
                                   const std::int32_t*, std::int64_t, double);

}  // namespace autocfg::cpu
