// The frequencies of rotary positions (Su et al. 2021), as the op that rotates takes them. Plain values.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace autocfg {

// At position s, pair i of the r rotated dims of a head turns by the angle s * theta^(-2i/r) * scales[i].
// Without scales this is what theta alone gives, to the bit.
struct RotaryFrequencies {
  double theta = 0;
  std::vector<double> scales = {};  // empty, or r/2 positive numbers
  double factor = 1;                // multiplies cosines and sines

  // Whether theta alone says everything.
  bool IsPlain() const { return scales.empty() && factor == 1; }
  // The frequency of a pair, of r = `dims`.
  double At(std::int64_t pair, std::int64_t dims) const {
    const double plain = std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(dims));
    return scales.empty() ? plain : plain * scales[static_cast<std::size_t>(pair)];
  }
};

}  // namespace autocfg
