// What one rank holds of a model under a plan: its coordinates on every axis, its stages, and the resulting
// local sizes. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg::trainer {

// One stage of the model, which is a chunk of its rank.
struct StageShape {
  std::int64_t stage = 0;       // of the model
  LayerRange layers;            // of the model
  std::int64_t recomputed = 0;  // how many layers, from the first on, recompute their forward
  bool first = true;            // the embedding precedes the layers
  bool last = true;             // final norm and output layer follow the layers
};

struct RankShape {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;

  std::int64_t rank = 0;
  std::int64_t tensor = 0;  // coordinates
  std::int64_t data = 0;
  std::int64_t pipeline = 0;
  bool holds_embedding = true;     // the first rank of the pipeline
  bool holds_head = true;          // the last one: final norm and output layer
  std::vector<StageShape> chunks;  // the rank's stages, ascending; chunk c is stage c pp + pipeline

  // Sizes, by the letters of docs/engine.md.
  std::int64_t micro_batch = 0;   // B
  std::int64_t seq_len = 0;       // S
  std::int64_t tokens = 0;        // T = B S
  std::int64_t hidden = 0;        // H
  std::int64_t heads = 0;         // N, local
  std::int64_t kv_heads = 0;      // G, local
  std::int64_t head_dim = 0;      // D
  std::int64_t attention = 0;     // A = N D
  std::int64_t qkv = 0;           // Q = (N + 2 G) D
  std::int64_t ffn = 0;           // F, local
  std::int64_t fc = 0;            // W: F, or 2 F if the activation is gated
  std::int64_t vocab = 0;         // V, local, padded
  std::int64_t vocab_start = 0;   // first row of the embedding table that this rank holds
  std::int64_t vocab_valid = 0;   // number of its rows that are not padding
  std::int64_t microbatches = 0;  // per step

  // Returns the chunk that is stage `stage` of the model. Requires that the rank owns it.
  std::size_t ChunkOfStage(std::int64_t stage) const {
    return static_cast<std::size_t>(ChunkOf(plan, stage));
  }
};

// Returns the shape of a rank. Requires a legal, resolved plan and 0 <= rank < RankCount(plan).
RankShape MakeRankShape(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                        std::int64_t rank);

}  // namespace autocfg::trainer
