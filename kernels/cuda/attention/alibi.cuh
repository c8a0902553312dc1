// The slopes of ALiBi (AlibiSlope of kernels/attention_form.h) on the device, and the score of a query and a
// key with their bias.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/attention_shape.h"

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

// Returns product * scale, with kAlibi minus slope * (query - key). Slope and scale are in the same unit.
template <bool kAlibi>
__device__ inline float ScoreOf(float product, float scale, float slope, int query, int key) {
  if constexpr (kAlibi) return product * scale - slope * static_cast<float>(query - key);
  return product * scale;
}

}  // namespace autocfg::cuda
