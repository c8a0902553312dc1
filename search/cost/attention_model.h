// How long attention takes on a described device, fused and as frameworks did it before fused kernels. Pure
// functions, thread-safe.
#pragma once

#include "search/cost/matmul_model.h"
#include "search/ops/op_desc.h"

namespace autocfg {

// Seconds of k{,Unfused}Attention{Forward,Backward}, each kernel with its launch of `overhead_s`.
//
// Fused: one kernel, at `fused_flops_per_s` counting full scores, or as long as its bytes take.
//
// Unfused (Vaswani et al. 2017 as Narayanan et al. 2021 ran it: scale, mask and softmax in one kernel, then
// dropout with a mask of one byte): the forward is two batched products, a softmax that reads and writes the
// scores and a dropout that reads and writes them and writes its mask; the backward is four batched products,
// the dropout's inverse, and a softmax gradient that reads two and writes one. Nothing is saved by causality.
// The engine has no dropout: it stands here because the runs to compare with had it.
double FusedAttentionSeconds(const OpDesc& op, double fused_flops_per_s, double bytes_per_s,
                             double overhead_s);
double UnfusedAttentionSeconds(const OpDesc& op, const MatmulDevice& device, double overhead_s);

}  // namespace autocfg
