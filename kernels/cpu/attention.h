// Causal attention that stores no scores. Blocks of rows of scores are computed, used and discarded; the
// backward recomputes them from the log-sum-exp (Dao et al. 2022). See Ops for the layouts. T: float, double.
// Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

struct AttentionShape {
  std::int64_t batch, seq_len, heads, head_dim, kv_heads;
};

// `workspace` holds AttentionWorkspaceElements(seq_len, head_dim) elements.
template <typename T>
void AttentionForward(const AttentionShape& shape, const T* qkv, T* out, T* lse, T* workspace);

template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* out, const T* lse, const T* dout,
                       T* dqkv, T* workspace);

}  // namespace autocfg::cpu
