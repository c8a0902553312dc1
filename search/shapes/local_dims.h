// The dims of docs/engine.md that a rank works with under a plan. Predictor and trainer both take them from
// here. Plain values; pure functions, thread-safe.
#pragma once

#include <cstdint>

#include "search/plan/model_spec.h"
#include "search/plan/run_view.h"

namespace autocfg {

struct LocalDims {
  std::int64_t micro_batch = 0;  // B
  std::int64_t seq_len = 0;      // S
  std::int64_t tokens = 0;       // T = B S
  std::int64_t rows = 0;         // R: tokens outside of the tensor-parallel ops; T / tp if sp, else T
  std::int64_t hidden = 0;       // H
  // Elements of the buffer of a message between stages: R H; with scatter_gather rounded up to a multiple of
  // tp, so that each rank of the tensor group sends an equal part.
  std::int64_t message = 0;
  std::int64_t heads = 0;        // N, local
  std::int64_t kv_heads = 0;     // G, local
  std::int64_t kv_replicas = 1;  // ranks of the tensor group with the same key-value heads
  std::int64_t head_dim = 0;     // D
  std::int64_t attention = 0;    // A = N D
  std::int64_t qkv = 0;          // Q = (N + 2 G) D
  std::int64_t ffn = 0;          // F, local
  std::int64_t fc = 0;           // W: F, or 2 F if the activation is gated
  std::int64_t vocab = 0;        // V, padded, local

  bool operator==(const LocalDims&) const = default;
};

// Returns the dims of every rank of a plan. Requires a legal plan.
LocalDims LocalDimsOf(const RunView& run);

// Returns how many statistics of a token the norms of q and k keep: one of each head, or of q and of k.
constexpr std::int64_t QkNormStatistics(const ModelSpec& model, const LocalDims& dims) {
  return model.qk_norm == QkNorm::kHead ? dims.heads + dims.kv_heads : 2;
}

}  // namespace autocfg
