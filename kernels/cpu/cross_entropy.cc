#include "kernels/cpu/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/vec_math.h"

namespace autocfg::cpu {
namespace {

// Sums of this many columns are kept in T, their total in double precision.
constexpr std::int64_t kChunk = 512;

// Asks for the elements in [from, from + kChunk), as far as `end`, while others are worked on: exponentials
// keep the core so busy that what it reads ahead by itself comes too late (measured: half the time of the
// pass).
template <typename T>
void PrefetchChunk(const T* from, const T* end) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t n = std::min<std::int64_t>(kChunk, end - from);
  for (std::int64_t i = 0; i < n; i += kLine) __builtin_prefetch(from + i, 1, 2);
}

// See Ops: the sum of a rank that has padding alone and no peers is 0. NaN stays NaN.
template <typename T>
T AtLeastNormal(T sum) {
  return sum < std::numeric_limits<T>::min() ? std::numeric_limits<T>::min() : sum;
}

}  // namespace

template <typename T>
void CrossEntropyMax(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits, T* max) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = logits + row * vocab;
    T m = std::numeric_limits<T>::lowest();
#pragma omp simd reduction(max : m)
    for (std::int64_t i = 0; i < valid; ++i) m = x[i] > m ? x[i] : m;
    max[row] = m;
  }
}

template <typename T>
void CrossEntropySum(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits, const T* max,
                     const std::int32_t* targets, std::int64_t start, T* sums) {
  const T* end = logits + rows * vocab;
  for (std::int64_t row = 0; row < rows; ++row) {
    T* x = logits + row * vocab;
    const T m = max[row];
    const std::int64_t target = targets[row] - start;
    sums[rows + row] = target >= 0 && target < valid ? x[target] - m : T(0);
    double total = 0;
    for (std::int64_t first = 0; first < valid; first += kChunk) {
      const std::int64_t last = std::min(valid, first + kChunk);
      PrefetchChunk(x + last, end);
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = first; i < last; ++i) {
        const T e = Exp(x[i] - m);
        x[i] = e;
        sum += e;
      }
      total += static_cast<double>(sum);
    }
    sums[row] = static_cast<T>(total);
    std::fill(x + valid, x + vocab, T(0));
  }
}

template <typename T>
double CrossEntropyLoss(std::int64_t rows, const T* sums) {
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    loss += std::log(static_cast<double>(AtLeastNormal(sums[row]))) - static_cast<double>(sums[rows + row]);
  }
  return loss;
}

template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, T* logits, const T* sums,
                          const std::int32_t* targets, std::int64_t start, T scale) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* x = logits + row * vocab;
    const T factor = scale / AtLeastNormal(sums[row]);
#pragma omp simd
    for (std::int64_t i = 0; i < vocab; ++i) x[i] *= factor;
    const std::int64_t target = targets[row] - start;
    if (target >= 0 && target < vocab) x[target] -= scale;
  }
}

template void CrossEntropyMax(std::int64_t, std::int64_t, std::int64_t, const float*, float*);
template void CrossEntropyMax(std::int64_t, std::int64_t, std::int64_t, const double*, double*);
template void CrossEntropySum(std::int64_t, std::int64_t, std::int64_t, float*, const float*,
                              const std::int32_t*, std::int64_t, float*);
template void CrossEntropySum(std::int64_t, std::int64_t, std::int64_t, double*, const double*,
                              const std::int32_t*, std::int64_t, double*);
template double CrossEntropyLoss(std::int64_t, const float*);
template double CrossEntropyLoss(std::int64_t, const double*);
template void CrossEntropyBackward(std::int64_t, std::int64_t, float*, const float*, const std::int32_t*,
                                   std::int64_t, float);
template void CrossEntropyBackward(std::int64_t, std::int64_t, double*, const double*, const std::int32_t*,
                                   std::int64_t, double);

}  // namespace autocfg::cpu
