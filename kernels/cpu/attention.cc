#include "kernels/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/vec_math.h"
#include "search/ops/memory_sizes.h"

namespace autocfg::cpu {
namespace {

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;

// Offsets of one head of one sequence. Its rows are `ld` (qkv) and `ld_out` (out) elements apart.
struct Head {
  std::int64_t q, k, v, out, lse;
  std::int64_t scores;  // of probabilities and dscores, whose rows are S elements apart
};

Head HeadAt(const AttentionShape& s, std::int64_t b, std::int64_t n) {
  const std::int64_t row = b * s.seq_len * (s.heads + 2 * s.kv_heads) * s.head_dim;
  const std::int64_t kv = s.heads + n / (s.heads / s.kv_heads);
  return {row + n * s.head_dim,
          row + kv * s.head_dim,
          row + (kv + s.kv_heads) * s.head_dim,
          b * s.seq_len * s.heads * s.head_dim + n * s.head_dim,
          (b * s.heads + n) * s.seq_len,
          (b * s.heads + n) * s.seq_len * s.seq_len};
}

// Replaces the first `used` scores by exp(score - max) and the rest by 0. Sets `max` and returns the sum.
template <typename T>
T ExpRow(T* row, std::int64_t used, std::int64_t cols, T& max) {
  T m = row[0];
#pragma omp simd reduction(max : m)
  for (std::int64_t j = 0; j < used; ++j) m = row[j] > m ? row[j] : m;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < used; ++j) {
    const T e = Exp(row[j] - m);
    row[j] = e;
    sum += e;
  }
  std::fill(row + used, row + cols, T(0));
  max = m;
  return sum;
}

// Turns the scores p into probabilities, and dp into the gradient with respect to the unscaled scores.
template <typename T>
AUTOCFG_WIDE_VECTORS void SoftmaxBackwardRow(T* p, T* dp, std::int64_t used, std::int64_t cols, T lse,
                                             T delta, T scale) {
#pragma omp simd
  for (std::int64_t j = 0; j < used; ++j) {
    const T e = Exp(p[j] - lse);
    p[j] = e;
    dp[j] = e * (dp[j] - delta) * scale;
  }
  std::fill(p + used, p + cols, T(0));
  std::fill(dp + used, dp + cols, T(0));
}

// As above of scores p that have neither soft cap nor bias yet.
template <typename T>
AUTOCFG_WIDE_VECTORS void CappedSoftmaxBackwardRow(T* p, T* dp, std::int64_t used, std::int64_t cols, T lse,
                                                   T delta, T scale, T softcap, T slope) {
  const T last = static_cast<T>(used - 1);
#pragma omp simd
  for (std::int64_t j = 0; j < used; ++j) {
    const T capped = SoftCap(p[j], softcap);
    const T e = Exp(capped - slope * (last - static_cast<T>(j)) - lse);
    p[j] = e;
    dp[j] = e * (dp[j] - delta) * scale * SoftCapSlope(capped, softcap);
  }
  std::fill(p + used, p + cols, T(0));
  std::fill(dp + used, dp + cols, T(0));
}

template <typename T>
AUTOCFG_WIDE_VECTORS void CapRow(T* row, std::int64_t used, T softcap) {
#pragma omp simd
  for (std::int64_t j = 0; j < used; ++j) row[j] = SoftCap(row[j], softcap);
}

// Adds ALiBi's bias to the scores of the query at position `used` - 1 with keys 0 ... used - 1.
template <typename T>
void AddBias(T* row, std::int64_t used, T slope) {
  const T last = static_cast<T>(used - 1);
#pragma omp simd
  for (std::int64_t j = 0; j < used; ++j) row[j] -= slope * (last - static_cast<T>(j));
}

// Turns the products of a query with its keys into scores: the last one with itself.
template <typename T>
void FinishScores(T* row, std::int64_t used, T softcap, T slope) {
  if (softcap != 0) CapRow(row, used, softcap);
  if (slope != 0) AddBias(row, used, slope);
}

// Multiplies the gradients of a block of scores, whose rows are `ld_scores` elements apart, by the slopes of
// the soft cap. They follow from the products of q and k, which are computed again, some columns at a time.
template <typename T>
void MultiplySlopes(std::int64_t rows, std::int64_t cols, std::int64_t head_dim, T scale, T softcap,
                    const T* q, const T* k, std::int64_t ld, T* dscores, std::int64_t ld_scores) {
  constexpr std::int64_t kColumns = 64;
  std::array<T, static_cast<std::size_t>(kAttentionBlockRows * kColumns)> products;
  for (std::int64_t first = 0; first < cols; first += kColumns) {
    const std::int64_t count = std::min(kColumns, cols - first);
    Gemm(kNo, kYes, rows, count, head_dim, scale, q, ld, k + first * ld, ld, T(0), products.data(), count);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* of_row = products.data() + i * count;
      T* to = dscores + i * ld_scores + first;
      for (std::int64_t j = 0; j < count; ++j) to[j] *= SoftCapSlope(SoftCap(of_row[j], softcap), softcap);
    }
  }
}

// Sets rows of keys or values to 0.
template <typename T>
void ClearRows(std::int64_t rows, std::int64_t head_dim, T* to, std::int64_t ld) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(to + i * ld, head_dim, T(0));
}

// Returns the delta of a row: the sum of dout * out over a head's columns.
template <typename T>
T RowDelta(const T* out, const T* dout, std::int64_t head_dim) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t d = 0; d < head_dim; ++d) sum += out[d] * dout[d];
  return sum;
}

}  // namespace

template <typename T>
void AttentionForward(const AttentionShape& shape, const T* qkv, T* out, T* lse, T* workspace) {
  const std::int64_t S = shape.seq_len, D = shape.head_dim, width = shape.heads * D,
                     ld = (shape.heads + 2 * shape.kv_heads) * D;
  const std::int64_t block = std::min(S, kAttentionBlockRows);
  const T scale = static_cast<T>(shape.form.ScaleOf(D)), softcap = static_cast<T>(shape.form.softcap);
  T* scores = workspace;

  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t n = 0; n < shape.heads; ++n) {
      const Head head = HeadAt(shape, b, n);
      const T slope = static_cast<T>(SlopeOf(shape.form, n));
      const T* q = qkv + head.q;
      const T* k = qkv + head.k;
      const T* v = qkv + head.v;
      for (std::int64_t first = 0; first < S; first += block) {
        const std::int64_t rows = std::min(block, S - first), start = shape.form.FirstKey(first),
                           cols = first + rows - start;
        T* o = out + head.out + first * width;
        Gemm(kNo, kYes, rows, cols, D, scale, q + first * ld, ld, k + start * ld, ld, T(0), scores, cols);
        T* sums = workspace + 2 * block * S;
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t before = shape.form.FirstKey(first + i) - start, used = first + i + 1 - start;
          T* row = scores + i * cols;
          T max;
          std::fill(row, row + before, T(0));
          FinishScores(row + before, used - before, softcap, slope);
          sums[i] = ExpRow(row + before, used - before, cols - before, max);
          lse[head.lse + first + i] = max + std::log(sums[i]);
        }
        Gemm(kNo, kNo, rows, D, cols, T(1), scores, cols, v + start * ld, ld, T(0), o, width);
        for (std::int64_t i = 0; i < rows; ++i) {
          const T inverse = T(1) / sums[i];
          for (std::int64_t d = 0; d < D; ++d) o[i * width + d] *= inverse;
        }
      }
    }
  }
}

// With P the probabilities and delta = rowsum(dout * out):
//   dV = P^T dout,  dS = P * (dout V^T - delta) / sqrt(D),  dQ = dS K,  dK = dS^T Q.
// The last block of rows runs first, because it reaches every key. For the first head that shares a key-value
// head, that block overwrites dK and dV; all other blocks add to them. With a window before which keys lie,
// dK and dV are set to 0 first, and every block adds.
template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* out, const T* lse, const T* dout,
                       T* dqkv, T* workspace) {
  const std::int64_t S = shape.seq_len, D = shape.head_dim, width = shape.heads * D,
                     ld = (shape.heads + 2 * shape.kv_heads) * D;
  const std::int64_t block = std::min(S, kAttentionBlockRows);
  const T scale = static_cast<T>(shape.form.ScaleOf(D)), softcap = static_cast<T>(shape.form.softcap);
  T* scores = workspace;
  T* dscores = scores + block * S;
  T* delta = dscores + block * S;

  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t n = 0; n < shape.heads; ++n) {
      const Head head = HeadAt(shape, b, n);
      const T slope = static_cast<T>(SlopeOf(shape.form, n));
      const T* q = qkv + head.q;
      const T* k = qkv + head.k;
      const T* v = qkv + head.v;
      T* dq = dqkv + head.q;
      T* dk = dqkv + head.k;
      T* dv = dqkv + head.v;
      const bool first_of_group = n % (shape.heads / shape.kv_heads) == 0;
      const bool clears = first_of_group && shape.form.FirstKey((S - 1) / block * block) > 0;
      if (clears) {
        ClearRows(S, D, dk, ld);
        ClearRows(S, D, dv, ld);
      }
      for (std::int64_t i = 0; i < S; ++i) {
        const std::int64_t row = head.out + i * width;
        delta[i] = RowDelta(out + row, dout + row, D);
      }
      for (std::int64_t first = (S - 1) / block * block; first >= 0; first -= block) {
        const std::int64_t rows = std::min(block, S - first), start = shape.form.FirstKey(first),
                           cols = first + rows - start;
        const T* g = dout + head.out + first * width;
        const T keep = first_of_group && !clears && first + rows == S ? T(0) : T(1);
        Gemm(kNo, kYes, rows, cols, D, scale, q + first * ld, ld, k + start * ld, ld, T(0), scores, cols);
        Gemm(kNo, kYes, rows, cols, D, T(1), g, width, v + start * ld, ld, T(0), dscores, cols);
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t before = shape.form.FirstKey(first + i) - start,
                             used = first + i + 1 - start - before;
          T* p = scores + i * cols;
          T* dp = dscores + i * cols;
          const T row_lse = lse[head.lse + first + i], row_delta = delta[first + i];
          std::fill(p, p + before, T(0));
          std::fill(dp, dp + before, T(0));
          if (softcap != 0) {
            CappedSoftmaxBackwardRow(p + before, dp + before, used, cols - before, row_lse, row_delta, scale,
                                     softcap, slope);
          } else {
            if (slope != 0) AddBias(p + before, used, slope);
            SoftmaxBackwardRow(p + before, dp + before, used, cols - before, row_lse, row_delta, scale);
          }
        }
        Gemm(kYes, kNo, cols, D, rows, T(1), scores, cols, g, width, keep, dv + start * ld, ld);
        Gemm(kNo, kNo, rows, D, cols, T(1), dscores, cols, k + start * ld, ld, T(0), dq + first * ld, ld);
        Gemm(kYes, kNo, cols, D, rows, T(1), dscores, cols, q + first * ld, ld, keep, dk + start * ld, ld);
      }
    }
  }
}

// Works in blocks of rows, as above, so that only keys up to the end of a block, and from the start of its
// window on, are multiplied.
template <typename T>
void UnfusedAttentionForward(const AttentionShape& shape, const T* qkv, T* probabilities, T* out) {
  const std::int64_t S = shape.seq_len, D = shape.head_dim, width = shape.heads * D,
                     ld = (shape.heads + 2 * shape.kv_heads) * D;
  const std::int64_t block = std::min(S, kAttentionBlockRows);
  const T scale = static_cast<T>(shape.form.ScaleOf(D)), softcap = static_cast<T>(shape.form.softcap);

  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t n = 0; n < shape.heads; ++n) {
      const Head head = HeadAt(shape, b, n);
      const T slope = static_cast<T>(SlopeOf(shape.form, n));
      for (std::int64_t first = 0; first < S; first += block) {
        const std::int64_t rows = std::min(block, S - first), start = shape.form.FirstKey(first),
                           cols = first + rows - start;
        T* p = probabilities + head.scores + first * S;
        Gemm(kNo, kYes, rows, cols, D, scale, qkv + head.q + first * ld, ld, qkv + head.k + start * ld, ld,
             T(0), p + start, S);
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t before = shape.form.FirstKey(first + i), used = first + i + 1 - before;
          T* row = p + i * S + before;
          T max;
          std::fill(p + i * S, row, T(0));
          FinishScores(row, used, softcap, slope);
          const T inverse = T(1) / ExpRow(row, used, S - before, max);
#pragma omp simd
          for (std::int64_t j = 0; j < used; ++j) row[j] *= inverse;
        }
        Gemm(kNo, kNo, rows, D, cols, T(1), p + start, S, qkv + head.v + start * ld, ld, T(0),
             out + head.out + first * width, width);
      }
    }
  }
}

// The equations and the order of the blocks are those of AttentionBackward.
template <typename T>
void UnfusedAttentionBackward(const AttentionShape& shape, const T* qkv, const T* probabilities, const T* out,
                              const T* dout, T* dqkv, T* dscores) {
  const std::int64_t S = shape.seq_len, D = shape.head_dim, width = shape.heads * D,
                     ld = (shape.heads + 2 * shape.kv_heads) * D;
  const std::int64_t block = std::min(S, kAttentionBlockRows);
  const T scale = static_cast<T>(shape.form.ScaleOf(D)), softcap = static_cast<T>(shape.form.softcap);

  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t n = 0; n < shape.heads; ++n) {
      const Head head = HeadAt(shape, b, n);
      const bool first_of_group = n % (shape.heads / shape.kv_heads) == 0;
      const bool clears = first_of_group && shape.form.FirstKey((S - 1) / block * block) > 0;
      if (clears) {
        ClearRows(S, D, dqkv + head.k, ld);
        ClearRows(S, D, dqkv + head.v, ld);
      }
      for (std::int64_t first = (S - 1) / block * block; first >= 0; first -= block) {
        const std::int64_t rows = std::min(block, S - first), start = shape.form.FirstKey(first),
                           cols = first + rows - start;
        const T* g = dout + head.out + first * width;
        const T* q = qkv + head.q + first * ld;
        const T* k = qkv + head.k + start * ld;
        const T* p = probabilities + head.scores + first * S + start;
        T* ds = dscores + head.scores + first * S + start;
        const T keep = first_of_group && !clears && first + rows == S ? T(0) : T(1);
        Gemm(kNo, kYes, rows, cols, D, T(1), g, width, qkv + head.v + start * ld, ld, T(0), ds, S);
        for (std::int64_t i = 0; i < rows; ++i) {
          const T delta = RowDelta(out + head.out + (first + i) * width, g + i * width, D);
          const T* p_row = p + i * S;
          T* ds_row = ds + i * S;
          // The probabilities of keys before the window are 0.
          const std::int64_t used = first + i + 1 - start;
#pragma omp simd
          for (std::int64_t j = 0; j < used; ++j) ds_row[j] = p_row[j] * (ds_row[j] - delta) * scale;
          std::fill(ds_row + used, ds_row + cols, T(0));
        }
        if (softcap != 0) MultiplySlopes(rows, cols, D, scale, softcap, q, k, ld, ds, S);
        Gemm(kYes, kNo, cols, D, rows, T(1), p, S, g, width, keep, dqkv + head.v + start * ld, ld);
        Gemm(kNo, kNo, rows, D, cols, T(1), ds, S, k, ld, T(0), dqkv + head.q + first * ld, ld);
        Gemm(kYes, kNo, cols, D, rows, T(1), ds, S, q, ld, keep, dqkv + head.k + start * ld, ld);
      }
    }
  }
}

template void AttentionForward(const AttentionShape&, const float*, float*, float*, float*);
template void AttentionForward(const AttentionShape&, const double*, double*, double*, double*);
template void AttentionBackward(const AttentionShape&, const float*, const float*, const float*, const float*,
                                float*, float*);
template void AttentionBackward(const AttentionShape&, const double*, const double*, const double*,
                                const double*, double*, double*);
template void UnfusedAttentionForward(const AttentionShape&, const float*, float*, float*);
template void UnfusedAttentionForward(const AttentionShape&, const double*, double*, double*);
template void UnfusedAttentionBackward(const AttentionShape&, const float*, const float*, const float*,
                                       const float*, float*, float*);
template void UnfusedAttentionBackward(const AttentionShape&, const double*, const double*, const double*,
                                       const double*, double*, double*);

}  // namespace autocfg::cpu
