// Causal grouped-query attention as operation graphs of cuDNN, in the pattern that its fused engines
// recognize: scores, scale, causal mask by comparing generated indices, softmax from reductions and pointwise
// operations, values. Scores are virtual, that is, never stored. The gradient recomputes them from the
// log-sum-exp. Pure functions.
//
// The gradient of q is accumulated in float in memory of the caller's ("query sums"), which old versions
// expect to be clear. Blocks of keys add to it in no fixed order, so its last bits may differ between runs.
// The engine without such sums is not used, because it stores scores (batch x heads x sequence^2 elements).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/cudnn/cudnn_graph.h"

namespace autocfg::cuda {

// Tensors of a plan. Scalars are floats on the host.
enum class AttentionTensor : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kLogSumExp,
  kScale,   // of the scores
  kLowest,  // value of masked scores: the lowest finite float
  kOne,     // 1
  kOutGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  kQuerySums,  // initially zero, unless CudnnClearsQuerySums
};

// Layouts, as [batch, heads, sequence, head dimension], of q, k and v in qkv[B,S,(N+2G)D], relative to a
// pointer to their first head; the same for their gradients. Also the layouts of the output, the scores and
// the row statistics.
struct AttentionLayouts {
  CudnnLayout query, key, out, scores, rows;  // values have the layout of keys
};
AttentionLayouts LayoutsOf(const AttentionShape& shape);

// Returns the bytes of the query sums: their layout plus one tile, because cuDNN orders them in tiles.
std::int64_t QuerySumBytes(const AttentionShape& shape);

// Return the bf16 plan; none if cuDNN refuses, with its reason in `why`. Throw as FindCudnnPlan does.
std::optional<CudnnPlan> FindAttentionForward(const AttentionShape& shape, const CudnnTarget& target,
                                              std::string* why);
std::optional<CudnnPlan> FindAttentionBackward(const AttentionShape& shape, const CudnnTarget& target,
                                               std::string* why);

// Returns whether the backward of this version, as cudnnGetVersion reports it, clears the query sums itself.
// NVIDIA's cudnn-frontend clears them only below 9.6.0; a test of the GPU fills them with NaN before each
// backward (tests/gpu/attention_test.cc).
bool CudnnClearsQuerySums(std::size_t version);

// Returns why this cuDNN version, as cudnnGetVersion reports it, must not compute attention of this shape
// although it offers plans for it, in one line. Empty if no fault is known.
std::string CudnnAttentionFault(std::size_t version, const AttentionShape& shape);

}  // namespace autocfg::cuda
