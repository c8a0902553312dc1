// How long a matrix product takes on a described device: tiles in waves over the multiprocessors, or the
// bytes it must move, whichever is longer. Pure functions, thread-safe.
#pragma once

#include <cstdint>

namespace autocfg {

// What a product runs on, rates as reached rather than peak.
struct MatmulDevice {
  double flops_per_s = 0;  // of large, aligned products
  // inner dimension at which half of that is left: filling and emptying a tile costs k_half steps of it
  double k_half = 0;
  double bytes_per_s = 0;
  std::int64_t multiprocessors = 0;  // 0: no tiles
};

// `batch` products C[m,n] = A[m,k] B[k,n], all at once.
struct MatmulShape {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// Seconds, without launch. `bytes`: what all of them read and write. C is cut into tiles (128 x 256 and
// smaller ones, which reach less of the rate), k where few tiles would leave multiprocessors idle ("split k",
// at the price of writing and reading its partial sums); a tile takes time in proportion to its area and to k
// + k_half, and tiles run in waves over the multiprocessors. The fastest cut counts, as the libraries'
// heuristics choose. Never less for a larger m, n, k, batch or bytes.
double MatmulSeconds(const MatmulDevice& device, const MatmulShape& shape, double bytes);

}  // namespace autocfg
