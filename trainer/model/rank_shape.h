// What one rank holds of a model under a plan: its place on every axis and the local sizes that follow. Plain
// values.
#pragma once

#include <cstdint>

#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

struct RankShape {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;

  std::int64_t rank = 0;
  std::int64_t tensor = 0;  // coordinates
  std::int64_t data = 0;
  std::int64_t stage = 0;
  bool first = true;  // holds the embedding
  bool last = true;   // holds the output layer
  LayerRange layers;  // of the model

  // Sizes by the letters of docs/engine.md.
  std::int64_t micro_batch = 0;   // B
  std::int64_t seq_len = 0;       // S
  std::int64_t tokens = 0;        // T = B S
  std::int64_t hidden = 0;        // H
  std::int64_t heads = 0;         // N, local
  std::int64_t head_dim = 0;      // D
  std::int64_t attention = 0;     // A = N D
  std::int64_t ffn = 0;           // F, local
  std::int64_t vocab = 0;         // V, local, padded
  std::int64_t vocab_start = 0;   // first row of the embedding table that this rank holds
  std::int64_t vocab_valid = 0;   // its rows that are not padding
  std::int64_t microbatches = 0;  // per step
};

// Requires a legal, resolved plan and 0 <= rank < RankCount(plan).
RankShape MakeRankShape(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                        std::int64_t rank);

}  // namespace autocfg
