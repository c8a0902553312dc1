// Scores of queries and keys on the device, as AttentionForm says (kernels/attention_form.h), and which keys
// a query attends to.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/primitives/soft_cap.cuh"

namespace autocfg::cuda {

// Returns the slope of the rank's head `head`; 0 without ALiBi.
__device__ inline float SlopeOf(const AttentionShape& shape, std::int64_t head) {
  if (!shape.HasAlibi()) return 0;
  const int of_model = static_cast<int>(shape.first_head + head), heads = static_cast<int>(shape.alibi_heads);
  int power = 1;
  while (power <= heads / 2) power *= 2;
  // Exact, because `power` is a power of two.
  return exp2f(of_model < power
                   ? -8.0f * static_cast<float>(of_model + 1) / static_cast<float>(power)
                   : -4.0f * static_cast<float>(2 * (of_model - power) + 1) / static_cast<float>(power));
}

// What scores need: a scale; ALiBi's bias too; or anything, which is a soft cap or a window, with or without
// ALiBi. Kernels are compiled for each, so that the first two pay nothing for the third.
enum class ScoreKind { kScaled, kBiased, kAny };

inline ScoreKind ScoreKindOf(const AttentionShape& shape) {
  if (shape.softcap != 0 || shape.window != 0) return ScoreKind::kAny;
  return shape.HasAlibi() ? ScoreKind::kBiased : ScoreKind::kScaled;
}

// Calls run with the kind of scores as a constant.
template <typename Run>
void WithScoreKind(ScoreKind kind, Run run) {
  switch (kind) {
    case ScoreKind::kScaled: return run.template operator()<ScoreKind::kScaled>();
    case ScoreKind::kBiased: return run.template operator()<ScoreKind::kBiased>();
    case ScoreKind::kAny: return run.template operator()<ScoreKind::kAny>();
  }
}

// How a head turns products of q and k into scores. All are in one unit: that of the scores.
struct ScoreForm {
  float scale, slope, softcap;
  int window;  // keys that a query attends to; at most the sequence
};

// Returns the form of a head, whose scores are multiplied by `unit`.
template <ScoreKind kKind>
__device__ ScoreForm ScoreFormOf(const AttentionShape& shape, float scale, std::int64_t head, float unit) {
  return {scale * unit, kKind == ScoreKind::kScaled ? 0.0f : SlopeOf(shape, head) * unit,
          static_cast<float>(shape.softcap) * unit,
          static_cast<int>(shape.window == 0 ? shape.seq_len : shape.window)};
}

// A score and its slope: the factor of the gradient of scale * product.
struct Score {
  float value, slope;
};

template <ScoreKind kKind>
__device__ inline Score ScoreOf(float product, const ScoreForm& form, int query, int key) {
  if constexpr (kKind == ScoreKind::kScaled) {
    return {product * form.scale, 1.0f};
  } else if constexpr (kKind == ScoreKind::kBiased) {
    return {product * form.scale - form.slope * static_cast<float>(query - key), 1.0f};
  } else {
    Score score{product * form.scale, 1.0f};
    if (form.softcap != 0) {
      score.value = SoftCap(score.value, form.softcap);
      score.slope = SoftCapSlope(score.value, form.softcap);
    }
    score.value -= form.slope * static_cast<float>(query - key);
    return score;
  }
}

// Returns whether a query does not attend to a key. `diagonal`: the key may be after the query.
template <ScoreKind kKind>
__device__ inline bool IsHidden(bool diagonal, const ScoreForm& form, int query, int key) {
  if constexpr (kKind == ScoreKind::kAny) {
    if (query - key >= form.window) return true;
  }
  return diagonal && key > query;
}

// Returns the first key, rounded down to a multiple of `tile`, that queries from `query` on attend to.
template <ScoreKind kKind>
__device__ inline int FirstKeyTile(const AttentionShape& shape, std::int64_t query, int tile) {
  if (kKind != ScoreKind::kAny || shape.window == 0 || query < shape.window) return 0;
  return static_cast<int>(query - shape.window + 1) / tile * tile;
}

// Returns the end of the queries that attend to keys before `end`.
template <ScoreKind kKind>
__device__ inline std::int64_t LastQueryEnd(const AttentionShape& shape, std::int64_t end) {
  if (kKind != ScoreKind::kAny || shape.window == 0 || end + shape.window - 1 > shape.seq_len)
    return shape.seq_len;
  return end + shape.window - 1;
}

// Returns a maximum of scores as exponents are taken relative to: 0 while none of them is visible.
template <ScoreKind kKind>
__device__ inline float ShiftOf(float max) {
  return kKind == ScoreKind::kAny && max == -INFINITY ? 0.0f : max;
}

}  // namespace autocfg::cuda
