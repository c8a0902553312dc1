// The bytes of a plan's ranks, in parts that plans share: what a rank counts of its split and schedule
// (RankLoad), and the sizes of what is counted (PlanMemory). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost/memory/memory_model.h"
#include "search/cost/memory/rank_units.h"
#include "search/ops/dtype.h"
#include "search/plan/cluster/engine_profile.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"
#include "search/plan/states/precision.h"
#include "search/shapes/local_dims.h"

namespace autocfg {

// How many tensors of each kind a rank keeps in its activation slots, over all its stages and all
// microbatches in flight on them. Depends on the pipeline, the split, the recomputed layers, the number of
// microbatches and whether messages overlap, and on no other option.
struct RankLoad {
  RankPlace place;
  std::int64_t layers = 0;     // of all its stages
  std::int64_t hidden = 0;     // inputs of layers, without those that are messages
  std::int64_t kept = 0;       // layers that keep the tensors inside them
  std::int64_t messages = 0;   // inputs of stages that arrive, and exchanged gradients
  std::int64_t ids = 0;        // token ids, of the first stage
  std::int64_t heads = 0;      // of the last stage
  std::int64_t in_flight = 0;  // slots
};

// Requires a legal plan with a resolved split.
RankLoad LoadOf(const RunView& run, const EngineProfile& engine, std::int64_t pipeline_rank);

// Returns the loads of ranks one of which has the largest arena of the plan, and of every plan with the same
// loads: the other ranks count at most as many of each tensor as one of these with the same parameters. In
// the order of the ranks. `in_flight`: keeps InFlight (search/schedule/generators.h) of stages, or
// InFlightTogether where the engine pools its activations, which plans share that differ in no option of the
// pipeline but their split; empty at first.
std::vector<RankLoad> LargestLoads(const RunView& run, const EngineProfile& engine,
                                   std::vector<std::int64_t>& in_flight);
std::vector<RankLoad> LargestLoads(const RunView& run, const EngineProfile& engine);

// The sizes that all ranks of a plan share, computed once, as the engine keeps them. Refers to its arguments.
// Requires a legal plan that CheckPredictable accepts; the split and the number of recomputed layers are not
// read.
class PlanMemory {
 public:
  PlanMemory(const RunView& run, const EngineProfile& engine);

  // Returns the regions of a rank, without device overhead.
  MemoryBytes Of(const RankLoad& rank) const { return Of(rank, Units(rank)); }
  MemoryBytes Of(const RankLoad& rank, const RankUnits& units) const;  // `units`: Units(rank)

  // Returns the units of a rank. Depends on the mesh, StateShards, the rank's place and its layers alone.
  RankUnits Units(const RankLoad& rank) const { return UnitsOf(s_, model_, plan_, rank.place, rank.layers); }

  // Returns the bytes of the rank's activation slots.
  std::int64_t Activations(const RankLoad& rank) const {
    return rank.hidden * hidden_ + rank.kept * layer_ + rank.messages * message_ + rank.ids * embedding_ +
           rank.heads * head_;
  }
  // Returns the bytes that a slot saves with each layer that recomputes.
  std::int64_t RecomputedLayer() const { return layer_; }
  // Returns the bytes of what ops need beside their operands: of all regions but the activations, what alone
  // depends on the mode of recompute.
  std::int64_t OpWorkspace() const { return workspace_; }

 private:
  std::int64_t OptimizerBytes(const RankUnits& units) const;
  double GradientBytes() const;  // of each element that a rank keeps
  // What each element that it updates takes in the step, beside the optimizer's states.
  double UpdateBytes(const RankUnits& units) const;
  std::int64_t OperandCopies(const RankUnits& units) const;  // of parameters, in the format of products

  const EngineProfile& engine_;
  const ModelSpec& model_;
  const ParallelPlan& plan_;
  const Workload& workload_;
  const Precision& types_;
  LocalDims s_;
  std::int64_t hidden_ = 0;   // [R,H e]
  std::int64_t message_ = 0;  // a buffer of a message
  // What a slot keeps of the embedding, of each layer besides its input, and of the head.
  std::int64_t embedding_ = 0, layer_ = 0, head_ = 0;
  std::int64_t workspace_ = 0;
};

}  // namespace autocfg
