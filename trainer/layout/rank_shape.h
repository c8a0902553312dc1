// What one rank holds of a model under a plan: its coordinates on every axis, its stages, its local dims, and
// its part of the vocabulary. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"
#include "search/plan/workload.h"
#include "search/shapes/local_dims.h"

namespace autocfg::trainer {

// One stage of the model, which is a chunk of its rank.
struct StageShape {
  std::int64_t stage = 0;       // of the model
  LayerRange layers;            // of the model
  std::int64_t recomputed = 0;  // how many layers, from the first on, recompute their forward
  std::int64_t delayed = 0;     // how many, up to the last one, have weight gradients of a later action
  bool first = true;            // the embedding precedes the layers
  bool last = true;             // final norm and output layer follow the layers
};

struct RankShape : LocalDims {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;

  std::int64_t rank = 0;
  std::int64_t tensor = 0;  // coordinates
  std::int64_t data = 0;
  std::int64_t pipeline = 0;
  std::int64_t shards = 1;   // parts that each state is in
  std::int64_t shard = 0;    // the part that this rank has
  std::int64_t replica = 0;  // ranks with the same part: 0 is the one that counts in norms and checkpoints
  RankPlace place;           // the first rank holds the embedding, the last final norm and output layer
  std::vector<StageShape> chunks;  // the rank's stages, ascending; chunk c is stage c pp + pipeline

  std::int64_t first_row = 0;     // the first of the R tokens that this rank holds outside of
                                  // tensor-parallel ops
  std::int64_t vocab_start = 0;   // first row of the embedding table that this rank holds
  std::int64_t vocab_valid = 0;   // number of its rows that are not padding
  std::int64_t microbatches = 0;  // per step

  // Returns the chunk that is stage `stage` of the model. Requires that the rank owns it.
  std::size_t ChunkOfStage(std::int64_t stage) const {
    return static_cast<std::size_t>(ChunkOf(plan, stage));
  }
};

// Returns the shape of a rank. Requires a legal, resolved plan and 0 <= rank < RankCount(plan).
RankShape MakeRankShape(const RunView& run, std::int64_t rank);

// Returns the ranks that this rank forms a communication group with, in ascending order, itself included;
// empty if the run needs no such group, or the rank were alone in it.
std::vector<std::int64_t> GroupRanks(const RankShape& shape, CommGroup group);

}  // namespace autocfg::trainer
