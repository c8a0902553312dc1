// The costs of plans, from the seconds of their ops: of a model's blocks, and of the stages and ranks of a
// pipeline, which are sums of those. For one model, workload, cluster and op times. Immutable except for its
// caches. Use one object per thread; each copy has caches of its own.
//
// All plans must be legal and canonical, with a resolved split (split.h), and accepted by CheckPredictable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "search/cost/kinds_of_layers.h"
#include "search/cost/op_sum.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/cost/shape_corrections.h"
#include "search/cost/stage_costs.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/plan/placement.h"
#include "search/plan/run.h"
#include "search/schedule/action.h"

namespace autocfg {

class PlanCosts {
 public:
  PlanCosts(Problem problem, std::shared_ptr<const OpTimeModel> times);

  const Problem& problem() const { return problem_; }
  const OpTimeModel& op_times() const { return *times_; }
  double RanksPerCore() const;  // at least 1

  // Returns what the cluster's calibration says of the plan's layers and output layer. Their times are
  // multiplied by exp(mean), what the host takes for them included.
  struct Corrections {
    LogCorrection layer, output_layer;
  };
  Corrections CorrectionsOf(const ParallelPlan& plan) const;

  // All functions below return references that are valid until the next call on this object.

  // Returns what plans have in common that differ in messages and states alone: the costs of blocks, without
  // arrivals and units.
  const BlockCosts& BlocksOf(const ParallelPlan& plan);

  // What plans have in common that differ in how they spread layers alone.
  struct Common {
    BlockCosts blocks;
    double p2p_s = 0, scalars_s = 0;
  };
  const Common& CommonOf(const ParallelPlan& plan);

  // What a rank does once in a step, its units in computes aside, and what it takes to gather its parameters
  // at the start of a step.
  struct OnceCosts {
    RankCosts rank;
    double gather_norms_s = 0, gather_all_s = 0;
  };
  const OnceCosts& OnceCostsOf(const ParallelPlan& plan, std::int64_t pipeline_rank);

  // Returns the costs of the whole pipeline, if the host issues an op in `host_op_s` seconds.
  const PipelineCosts& PipelineOf(const ParallelPlan& plan, double host_op_s);

 private:
  struct BackwardOps {
    OpSum ops;
    double first_s = 0;  // of the backward that writes the gradients which `ops` add to
  };
  // What plans share that differ in recompute alone.
  struct BlocksWithoutRecompute {
    BlockCosts blocks;
    // By the number of the kind; of layers that delay nothing, where backwards are split or not. Nothing is
    // hidden beside them.
    absl::InlinedVector<StageCosts, 1> whole_backwards;
  };
  class OpSums;

  OpSum SumOf(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const;
  // `list`: returns the ops of a backward that adds to gradients, or of one that writes them.
  template <typename List>
  BackwardOps SumOfBackward(const ParallelPlan& plan, const List& list) const;
  double SecondsOfOps(const ParallelPlan& plan, std::int64_t pipeline_rank, ActionKind kind) const;
  // Both without costs of the engine and corrections.
  const BlocksWithoutRecompute& BlocksWithoutRecomputeOf(const ParallelPlan& plan);
  BlockCosts MakeBlocks(const ParallelPlan& plan);
  const UnitCosts& UnitCostsOf(const ParallelPlan& plan);
  void AddMessages(const ParallelPlan& plan, Common& p) const;  // and sums of scalars
  double SecondsOfPass(const ParallelPlan& plan) const;         // over the rank's rows of a layer
  RankCosts CostsOfRank(const ParallelPlan& plan, const BlockCosts& blocks, std::int64_t pipeline_rank);

  Problem problem_;
  EngineProfile engine_;  // of times
  std::shared_ptr<const OpTimeModel> times_;
  std::shared_ptr<const KindsOfLayers> kinds_;
  ShapeCorrections layers_, output_layers_;
  // The caches. A key holds whole groups of options (parallel_plan.h), so that a new option of a group
  // becomes part of it.
  //
  // What the costs of units depend on: the default if no compute uses units. Overlap, and whether parameters
  // are sharded too, changes when they are paid.
  static StateOptions StatesOfStages(const ParallelPlan& plan) {
    if (!ShardsGradients(plan) && !OverlapsGradients(plan) && !OverlapsParameters(plan)) return {};
    StateOptions states = plan.states();
    states.zero_stage = std::min<std::int64_t>(states.zero_stage, 2);
    states.grad_overlap = true;
    states.param_overlap = false;
    return states;
  }
  // Sizes and kinds of the ops of a layer, the embedding and the head.
  struct BlocksKey {
    std::int64_t layer_ranks, ranks;  // of all; they place the tensor group
    LayerOptions layer;
    bool shards_gradients;  // and so never adds to them
    bool embedding_adds;    // to the head's gradient
    bool splits_backward;
    bool operator==(const BlocksKey&) const = default;
  };
  BlocksKey BlocksKeyOf(const ParallelPlan& plan) const;
  struct CommonKey {  // the same, the ranks of all groups, and messages between stages
    MeshOptions mesh;
    LayerOptions layer;
    bool scatter_gather;  // overlap changes when messages are paid, not what they cost
    StateOptions states;
    bool shards_gradients, splits_backward;
    bool operator==(const CommonKey&) const = default;
  };
  struct UnitsKey {
    MeshOptions mesh;
    StateOptions states;  // StatesOfStages
    bool operator==(const UnitsKey&) const = default;
  };
  struct OnceKey {  // what a rank does once with all its parameters
    MeshOptions mesh;
    StateOptions states;
    bool splits_sequence;  // and so sums the gradients of norms
    std::int64_t layers;   // of the rank
    std::size_t place;     // whether it is first and last
    bool operator==(const OnceKey&) const = default;
  };
  // Hashes the options that differ most often; equality compares all of them.
  struct KeyHash {
    std::size_t operator()(const BlocksKey& key) const;
    std::size_t operator()(const CommonKey& key) const;
    std::size_t operator()(const UnitsKey& key) const;
    std::size_t operator()(const OnceKey& key) const;
  };
  absl::node_hash_map<BlocksKey, BlocksWithoutRecompute, KeyHash> without_recompute_;  // recompute is none
  absl::node_hash_map<BlocksKey, BlockCosts, KeyHash> blocks_;
  absl::node_hash_map<CommonKey, Common, KeyHash> commons_;
  absl::node_hash_map<UnitsKey, UnitCosts, KeyHash> units_;
  absl::flat_hash_map<OnceKey, OnceCosts, KeyHash> once_costs_;
  PipelineCosts pipeline_;  // of the last plan; reused to avoid allocations
};

}  // namespace autocfg
