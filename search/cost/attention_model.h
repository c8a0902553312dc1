// Models the time of attention on a described device: fused, and unfused as frameworks computed it before
// fused kernels. Pure functions, thread-safe.
#pragma once

#include "search/cost/matmul_model.h"
#include "search/ops/op_desc.h"

namespace autocfg {

// Returns the seconds of k{,Unfused}Attention{Forward,Backward}. Each kernel takes a launch of `overhead_s`.
//
// Fused: one kernel that takes the longer of its work at `fused_flops_per_s`, counting full scores, and its
// bytes.
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
double FusedAttentionSeconds(const OpDesc& op, double fused_flops_per_s, double bytes_per_s,
                             double overhead_s);
double UnfusedAttentionSeconds(const OpDesc& op, const MatmulDevice& device, double overhead_s);

}  // namespace autocfg
