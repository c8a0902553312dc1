// Causal grouped-query attention, fused and unfused. With a window, blocks of keys before it are left out.
// Fused attention stores no scores: blocks of rows of scores are computed, used and discarded; the backward
// recomputes them from the log-sum-exp (Dao et al. 2022). Unfused attention keeps its probabilities for the
// backward. See Ops for the layouts. With B, S, N, D and G the sizes of AttentionShape in this order, qkv and
// dqkv are [B, S, (N + 2G) D], out and dout [B, S, N D], lse [B, N, S], probabilities and dscores [B, N, S,
// S]. T: float, double; everything is computed and accumulated in T. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/attention_form.h"

namespace autocfg::cpu {

struct AttentionShape {
  std::int64_t batch, seq_len, heads, head_dim, kv_heads;
  AttentionForm form;  // what the scores are
};

// Writes out and lse. `workspace` holds AttentionWorkspaceElements(seq_len, head_dim) elements.
template <typename T>
void AttentionForward(const AttentionShape& shape, const T* qkv, T* out, T* lse, T* workspace);

// Writes every element of dqkv, given dout and the results of the forward. `workspace` as in the forward.
template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* out, const T* lse, const T* dout,
                       T* dqkv, T* workspace);

// Writes out and every element of probabilities.
template <typename T>
void UnfusedAttentionForward(const AttentionShape& shape, const T* qkv, T* probabilities, T* out);

// Writes every element of dqkv, given dout and the results of the forward. Uses dscores as room.
template <typename T>
void UnfusedAttentionBackward(const AttentionShape& shape, const T* qkv, const T* probabilities, const T* out,
                              const T* dout, T* dqkv, T* dscores);

}  // namespace autocfg::cpu
