// A soft cap c of scores or logits: x becomes c tanh(x / c), at most c in size. Shared by attention and
// cross-entropy.
#pragma once

#include <cuda_runtime.h>

namespace autocfg::cuda {

__device__ inline float SoftCap(float x, float cap) { return cap * tanhf(x / cap); }

// Returns the slope where the cap gave `capped`.
__device__ inline float SoftCapSlope(float capped, float cap) {
  const float share = capped / cap;
  return 1.0f - share * share;
}

}  // namespace autocfg::cuda
