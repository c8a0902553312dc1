// Models the time of a matrix product on a described device: the longer of its tiles, in waves over the
// multiprocessors, and its bytes. Pure functions, thread-safe.
#pragma once

#include <cstdint>

#include "search/ops/op_desc.h"

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

struct FusedAttentionDevice {
  double flops_per_s = 0;  // at a head dim of kAttentionRateHeadDim
  double head_dim_half = 0;
  double bytes_per_s = 0;
};
inline constexpr double kAttentionRateHeadDim = 128;

// Returns the seconds of k{,Unfused}Attention{Forward,Backward}. Each kernel takes a launch of `overhead_s`.
//
// Fused: one kernel that takes the longer of its work, counting full scores, and its bytes. The work on each
// score that is no product (the exponential) weighs more at small head dims: time grows with 1 +
// head_dim_half / head_dim.
//
// Unfused (Vaswani et al. 2017 as Narayanan et al. 2021 ran it: scale, mask and softmax in one kernel, then
// dropout with a one-byte mask; causality saves nothing):
//
// - forward: two batched products, a softmax that reads and writes the scores, a dropout that reads and
//   writes them and writes its mask;
// - backward: four batched products, the dropout's inverse, a softmax gradient that reads two score tensors
//   and writes one.
//
// The engine has no dropout. It is modelled because the runs to compare with had it.
double FusedAttentionSeconds(const OpDesc& op, const FusedAttentionDevice& device, double overhead_s);
double UnfusedAttentionSeconds(const OpDesc& op, const MatmulDevice& device, double overhead_s);

}  // namespace autocfg
