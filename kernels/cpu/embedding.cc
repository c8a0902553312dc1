#include "kernels/cpu/embedding.h"

#include <algorithm>
#include <cmath>

#include "kernels/position_runs.h"

namespace autocfg::cpu {
namespace {

template <typename T>
void AddTo(std::int64_t n, T* y, const T* x) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

constexpr std::int64_t kPairs = 64;    // pairs whose angles are kept at a time: one head of 128
constexpr std::int64_t kRestart = 16;  // positions between exact sines

// Computes sine and cosine of position * frequency, times the factor, for up to kPairs frequencies, in double
// precision, position by position. Values are exact at every kRestart-th position; the addition theorem gives
// those in between. The error is below 1e-14.
class Angles {
 public:
  Angles(std::int64_t first_pair, std::int64_t pairs, std::int64_t rotary_dims,
         const RotaryFrequencies& frequencies)
      : pairs_(pairs), factor_(frequencies.factor) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      frequency_[i] = frequencies.At(first_pair + i, rotary_dims);
      step_cos_[i] = std::cos(frequency_[i]);
      step_sin_[i] = std::sin(frequency_[i]);
    }
  }

  // Requires positions in the order 0, 1, 2, ...
  template <typename T>
  void At(std::int64_t position, bool inverse, T* cosine, T* sine) {
    if (position % kRestart == 0) {
      for (std::int64_t i = 0; i < pairs_; ++i) {
        const double angle = static_cast<double>(position) * frequency_[i];
        cos_[i] = std::cos(angle);
        sin_[i] = std::sin(angle);
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < pairs_; ++i) {
        const double c = cos_[i] * step_cos_[i] - sin_[i] * step_sin_[i];
        sin_[i] = sin_[i] * step_cos_[i] + cos_[i] * step_sin_[i];
        cos_[i] = c;
      }
    }
    const double of_cosine = factor_, of_sine = inverse ? -factor_ : factor_;
#pragma omp simd
    for (std::int64_t i = 0; i < pairs_; ++i) {
      cosine[i] = static_cast<T>(of_cosine * cos_[i]);
      sine[i] = static_cast<T>(of_sine * sin_[i]);
    }
  }

 private:
  const std::int64_t pairs_;
  const double factor_;
  double frequency_[kPairs], step_cos_[kPairs], step_sin_[kPairs], cos_[kPairs], sin_[kPairs];
};

}  // namespace

template <typename T>
void EmbeddingForward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                      const std::int32_t* tokens, const T* table, T* out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t id = tokens[row] - start;
    if (id >= 0 && id < vocab) {
      std::copy_n(table + id * width, width, out + row * width);
    } else {
      std::fill_n(out + row * width, width, T(0));
    }
  }
}

template <typename T>
void EmbeddingBackward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                       const std::int32_t* tokens, const T* dout, T* dtable) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t id = tokens[row] - start;
    if (id >= 0 && id < vocab) AddTo(width, dtable + id * width, dout + row * width);
  }
}

template <typename T>
void PositionForward(const TokenRows& shape, std::int64_t seq_len, std::int64_t first, T* y, const T* table) {
  const std::int64_t width = shape.width;
  ForEachPositionRun(shape.rows, first, seq_len, [&](const PositionRun& run) {
    for (std::int64_t s = 0; s < run.sequences; ++s)
      AddTo(run.length * width, y + (run.row + s * run.length) * width, table + run.position * width);
  });
}

template <typename T>
void PositionBackward(std::int64_t batch, std::int64_t seq_len, std::int64_t width, const T* dy, T* dtable) {
  for (std::int64_t b = 0; b < batch; ++b) AddTo(seq_len * width, dtable, dy + b * seq_len * width);
}

template <typename T>
void Rope(const RopeShape& shape, const RotaryFrequencies& frequencies, bool inverse, T* qkv) {
  const std::int64_t half = shape.rotary_dims / 2;
  T cosine[kPairs], sine[kPairs];
  for (std::int64_t first = 0; first < half; first += kPairs) {
    const std::int64_t pairs = std::min(kPairs, half - first);
    Angles angles(first, pairs, shape.rotary_dims, frequencies);
    for (std::int64_t s = 0; s < shape.seq_len; ++s) {
      angles.At(s, inverse, cosine, sine);
      for (std::int64_t b = 0; b < shape.batch; ++b) {
        T* low = qkv + (b * shape.seq_len + s) * shape.width + first;
        for (std::int64_t h = 0; h < shape.heads; ++h, low += shape.head_dim) {
          T* high = low + half;
#pragma omp simd
          for (std::int64_t i = 0; i < pairs; ++i) {
            const T x = low[i], y = high[i];
            low[i] = x * cosine[i] - y * sine[i];
            high[i] = y * cosine[i] + x * sine[i];
          }
        }
      }
    }
  }
}

template void EmbeddingForward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                               const float*, float*);
template void EmbeddingForward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                               const double*, double*);
template void EmbeddingBackward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                                const float*, float*);
template void EmbeddingBackward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                                const double*, double*);
template void PositionForward(const TokenRows&, std::int64_t, std::int64_t, float*, const float*);
template void PositionForward(const TokenRows&, std::int64_t, std::int64_t, double*, const double*);
template void PositionBackward(std::int64_t, std::int64_t, std::int64_t, const float*, float*);
template void PositionBackward(std::int64_t, std::int64_t, std::int64_t, const double*, double*);
template void Rope(const RopeShape&, const RotaryFrequencies&, bool, float*);
template void Rope(const RopeShape&, const RotaryFrequencies&, bool, double*);

}  // namespace autocfg::cpu
