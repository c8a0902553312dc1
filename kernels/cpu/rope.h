// Rotary position embedding (Su et al. 2021); see Ops. T: float, double. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

struct RopeShape {
  std::int64_t batch, seq_len, width;  // rows of `width` elements
  std::int64_t heads, head_dim;        // the first heads * head_dim columns are rotated
};

template <typename T>
void Rope(const RopeShape& shape, double theta, bool inverse, T* qkv);

}  // namespace autocfg::cpu
