// The factor that scales gradients when they are clipped by the global L2 norm. A pure function, thread-safe.
#pragma once

#include <algorithm>

namespace autocfg {

// Returns min(1, clip_norm / (norm + 1e-6)), or 1 if clip_norm is 0 or the norm is NaN.
inline double ClipFactor(double clip_norm, double norm) {
  return clip_norm == 0 ? 1.0 : std::min(1.0, clip_norm / (norm + 1e-6));
}

}  // namespace autocfg
