// Models the time of a matrix product on a described device: the longer of its tiles, in waves over the
// multiprocessors, and its bytes. Pure functions, thread-safe.
#pragma once

#include <cstdint>

namespace autocfg {

// The device of a product; rates are effective, not peak.
struct MatmulDevice {
  double flops_per_s = 0;  // of large, aligned products
  // inner dimension at which half of that is reached; filling and draining a tile costs k_half steps
  double k_half = 0;
  double bytes_per_s = 0;
  std::int64_t multiprocessors = 0;  // 0: no tiles
};

// `batch` products C[m,n] = A[m,k] B[k,n], all executed together.
struct MatmulShape {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// Returns the seconds of the products, without launch. `bytes` is the total read and written.
//
// C is cut into tiles of 128 x 256 and smaller; smaller tiles reach less of the rate. If there are too few
// tiles for the multiprocessors, k is cut too ("split k"), which adds writing and reading of partial sums. A
// tile's time is proportional to its area and to k + k_half; tiles run in waves over the multiprocessors. The
// fastest cut counts, since the libraries' heuristics choose it. Never less for a larger m, n, k, batch or
// bytes.
double MatmulSeconds(const MatmulDevice& device, const MatmulShape& shape, double bytes);

}  // namespace autocfg
