// Causal grouped-query attention as operation graphs of cuDNN, in the pattern that its fused engines know:
// scores, scale, causal mask by comparing generated indices, softmax from reductions and pointwise
// operations, values. Scores are virtual: they are never stored. The gradient computes them again from the
// log-sum-exp. Pure functions.
//
// The gradient by q is summed in float in memory that the caller clears ("query sums"): blocks of keys add to
// it in no fixed order, so that its last bits may differ between runs. The engine without such sums stores
// scores (batch x heads x sequence^2 elements), which is why it is not used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/cuda/attention_shape.h"
#include "kernels/cuda/cudnn_graph.h"

namespace autocfg::cuda {

// The tensors that a plan is executed on. Scalars are floats on the host.
enum class AttentionTensor : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kLogSumExp,
  kScale,   // 1 / sqrt(head_dim)
  kLowest,  // what masked scores become: the lowest finite float
  kOne,     // 1
  kOutGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  kQuerySums,  // zeros at first
};

// Where q, k, v lie in qkv[B,S,(N+2G)D] once the pointer is at their first head, as [batch, heads, sequence,
// head dimension]; the same for their gradients; the output, scores and statistics of rows.
struct AttentionLayouts {
  CudnnLayout query, key, out, scores, rows;  // values lie as keys do
};
AttentionLayouts LayoutsOf(const AttentionShape& shape);

// Bytes of the query sums: what their layout takes and a tile more, since cuDNN orders them in tiles.
std::int64_t QuerySumBytes(const AttentionShape& shape);

// The plan for bf16; none where cuDNN refuses, with its reason in `why`. Throws as FindCudnnPlan does.
std::optional<CudnnPlan> FindAttentionForward(const AttentionShape& shape, const CudnnTarget& target,
                                              std::string* why);
std::optional<CudnnPlan> FindAttentionBackward(const AttentionShape& shape, const CudnnTarget& target,
                                               std::string* why);

}  // namespace autocfg::cuda
