// Token and position embeddings; see Ops. T: float, double. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

// Tokens outside [start, start + vocab) belong to other ranks; their rows of out are 0.
template <typename T>
void EmbeddingForward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                      const std::int32_t* tokens, const T* table, T* out);

template <typename T>
void EmbeddingBackward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                       const std::int32_t* tokens, const T* dout, T* dtable);

template <typename T>
void PositionForward(std::int64_t batch, std::int64_t seq_len, std::int64_t width, T* y, const T* table);

template <typename T>
void PositionBackward(std::int64_t batch, std::int64_t seq_len, std::int64_t width, const T* dy, T* dtable);

}  // namespace autocfg::cpu
