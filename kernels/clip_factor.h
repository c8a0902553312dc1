// Clipping by the global L2 norm: what gradients are scaled by. A pure function, thread-safe.
#pragma once

#include <algorithm>

namespace autocfg {

// min(1, clip_norm / (norm + 1e-6)); 1 where clip_norm is 0 or the norm is no number.
inline double ClipFactor(double clip_norm, double norm) {
  return clip_norm == 0 ? 1.0 : std::min(1.0, clip_norm / (norm + 1e-6));
}

}  // namespace autocfg
