#include "kernels/cpu/embedding.h"

#include <algorithm>

namespace autocfg::cpu {
namespace {

template <typename T>
void AddTo(std::int64_t n, T* y, const T* x) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

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
void PositionForward(std::int64_t batch, std::int64_t seq_len, std::int64_t width, T* y, const T* table) {
  for (std::int64_t b = 0; b < batch; ++b) AddTo(seq_len * width, y + b * seq_len * width, table);
}

template <typename T>
void PositionBackward(std::int64_t batch, std::int64_t seq_len, std::int64_t width, const T* dy, T* dtable) {
  for (std::int64_t b = 0; b < batch; ++b) AddTo(seq_len * width, dtable, dy + b * seq_len * width);
}

template void EmbeddingForward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                               const float*, float*);
template void EmbeddingForward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                               const double*, double*);
template void EmbeddingBackward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                                const float*, float*);
template void EmbeddingBackward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                                const double*, double*);
template void PositionForward(std::int64_t, std::int64_t, std::int64_t, float*, const float*);
template void PositionForward(std::int64_t, std::int64_t, std::int64_t, double*, const double*);
template void PositionBackward(std::int64_t, std::int64_t, std::int64_t, const float*, float*);
template void PositionBackward(std::int64_t, std::int64_t, std::int64_t, const double*, double*);

}  // namespace autocfg::cpu
