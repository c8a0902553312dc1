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

// What a logit counts as: itself, or capped.
template <bool kCapped, typename T>
struct LogitOf {
  T softcap;

  [[gnu::always_inline]] T operator()(T x) const {
    if constexpr (kCapped) return SoftCap(x, softcap);
    return x;
  }
  // Returns the factor of the gradient, given what the logit counts as.
  [[gnu::always_inline]] T Slope(T y) const { return kCapped ? SoftCapSlope(y, softcap) : T(1); }
};

// Returns the target's logit, or 0 if the target is not in the row.
template <typename T>
T TargetLogit(std::int64_t target, std::int64_t valid, const T* row) {
  return target >= 0 && target < valid ? row[target] : T(0);
}

// Returns the sum over `row` of exp(logit - max). Passes each exponential to store(i, exponential).
template <bool kWrite, bool kCapped, typename T, typename Store>
[[gnu::always_inline]] inline double SumOfExponentials(std::int64_t valid, const T* row,
                                                       const LogitOf<kCapped, T>& logit, T max, const T* end,
                                                       Store store) {
  double total = 0;
  for (std::int64_t first = 0; first < valid; first += kChunk) {
    const std::int64_t last = std::min(valid, first + kChunk);
    PrefetchChunk<kWrite>(row + last, end);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = first; i < last; ++i) {
      const T e = Exp(logit(row[i]) - max);
      store(i, e);
      sum += e;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

// Replaces a row's logits by scale * exp(logit - shift), minus `less` at the target, each times its slope; 0
// in the padding.
template <bool kCapped, typename T>
[[gnu::always_inline]] inline void WriteGradient(std::int64_t vocab, std::int64_t valid, std::int64_t target,
                                                 T* row, const LogitOf<kCapped, T>& logit, T shift, T scale,
                                                 T less, const T* end) {
  const bool has_target = target >= 0 && target < valid;
  const T at_target = has_target ? less * logit.Slope(logit(row[target])) : T(0);
  for (std::int64_t first = 0; first < valid; first += kChunk) {
    const std::int64_t last = std::min(valid, first + kChunk);
    PrefetchChunk<true>(row + last, end);
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) {
      const T y = logit(row[i]), gradient = scale * Exp(y - shift);
      row[i] = kCapped ? gradient * logit.Slope(y) : gradient;
    }
  }
  std::fill(row + valid, row + vocab, T(0));
  if (has_target) row[target] -= at_target;
}

// Without a cap, the exponentials are stored and scaled later. With one, the logits are still needed then.
template <bool kCapped, typename T>
[[gnu::always_inline]] inline double WholeRows(std::int64_t rows, std::int64_t vocab, std::int64_t valid,
                                               T* logits, const std::int32_t* targets, T scale,
                                               const LogitOf<kCapped, T>& logit) {
  const T* end = logits + rows * vocab;
  double loss = 0;
  for (std::int64_t t = 0; t < rows; ++t) {
    T* row = logits + t * vocab;
    const T max = logit(RowMax(valid, row)), target = logit(TargetLogit(targets[t], valid, row));
    const double sum = SumOfExponentials<true>(valid, row, logit, max, end, [&](std::int64_t i, T e) {
      if constexpr (!kCapped) row[i] = e;
    });
    loss += std::log(sum) + (static_cast<double>(max) - static_cast<double>(target));
    const T factor = static_cast<T>(static_cast<double>(scale) / sum);
    if constexpr (kCapped) {
      WriteGradient(vocab, valid, targets[t], row, logit, max, factor, scale, end);
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < valid; ++i) row[i] *= factor;
      std::fill(row + valid, row + vocab, T(0));
      if (targets[t] >= 0 && targets[t] < valid) row[targets[t]] -= scale;
    }
  }
  return loss;
}

template <bool kCapped, typename T>
[[gnu::always_inline]] inline void ForwardRows(std::int64_t rows, std::int64_t vocab, std::int64_t valid,
                                               const T* logits, const std::int32_t* targets,
                                               std::int64_t start, const LogitOf<kCapped, T>& logit, T* max,
                                               T* sums) {
  const T* end = logits + rows * vocab;
  for (std::int64_t t = 0; t < rows; ++t) {
    const T* row = logits + t * vocab;
    const T most = logit(RowMax(valid, row));
    const double sum = SumOfExponentials<false>(valid, row, logit, most, end, [](std::int64_t, T) {});
    max[t] = valid == 0 ? std::numeric_limits<T>::lowest() : most + static_cast<T>(std::log(sum));
    sums[t] = max[t];
    sums[rows + t] = logit(TargetLogit(targets[t] - start, valid, row));
  }
}

template <bool kCapped, typename T>
[[gnu::always_inline]] inline void BackwardRows(std::int64_t rows, std::int64_t vocab, std::int64_t valid,
                                                T* logits, const T* sums, const std::int32_t* targets,
                                                std::int64_t start, T scale,
                                                const LogitOf<kCapped, T>& logit) {
  const T* end = logits + rows * vocab;
  for (std::int64_t t = 0; t < rows; ++t)
    WriteGradient(vocab, valid, targets[t] - start, logits + t * vocab, logit, sums[t], scale, scale, end);
}

}  // namespace

template <typename T>
AUTOCFG_WIDE_VECTORS double CrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                                         const std::int32_t* targets, T scale, T softcap) {
  if (softcap != 0) return WholeRows(rows, vocab, valid, logits, targets, scale, LogitOf<true, T>{softcap});
  return WholeRows(rows, vocab, valid, logits, targets, scale, LogitOf<false, T>{});
}

template <typename T>
AUTOCFG_WIDE_VECTORS void CrossEntropyForward(std::int64_t rows, std::int64_t vocab, std::int64_t valid,
                                              const T* logits, const std::int32_t* targets,
                                              std::int64_t start, T softcap, T* max, T* sums) {
  if (softcap != 0)
    return ForwardRows(rows, vocab, valid, logits, targets, start, LogitOf<true, T>{softcap}, max, sums);
  ForwardRows(rows, vocab, valid, logits, targets, start, LogitOf<false, T>{}, max, sums);
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
                                               std::int64_t start, T scale, T softcap) {
  if (softcap != 0)
    return BackwardRows(rows, vocab, valid, logits, sums, targets, start, scale, LogitOf<true, T>{softcap});
  BackwardRows(rows, vocab, valid, logits, sums, targets, start, scale, LogitOf<false, T>{});
}

template double CrossEntropy(std::int64_t, std::int64_t, std::int64_t, float*, const std::int32_t*, float,
                             float);
template double CrossEntropy(std::int64_t, std::int64_t, std::int64_t, double*, const std::int32_t*, double,
                             double);
template void CrossEntropyForward(std::int64_t, std::int64_t, std::int64_t, const float*, const std::int32_t*,
                                  std::int64_t, float, float*, float*);
template void CrossEntropyForward(std::int64_t, std::int64_t, std::int64_t, const double*,
                                  const std::int32_t*, std::int64_t, double, double*, double*);
template void CrossEntropyRescale(std::int64_t, const float*, float*);
template void CrossEntropyRescale(std::int64_t, const double*, double*);
template double CrossEntropyLoss(std::int64_t, const float*, float*);
template double CrossEntropyLoss(std::int64_t, const double*, double*);
template void CrossEntropyBackward(std::int64_t, std::int64_t, std::int64_t, float*, const float*,
                                   const std::int32_t*, std::int64_t, float, float);
template void CrossEntropyBackward(std::int64_t, std::int64_t, std::int64_t, double*, const double*,
                                   const std::int32_t*, std::int64_t, double, double);

}  // namespace autocfg::cpu
