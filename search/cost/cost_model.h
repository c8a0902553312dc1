// Predicts time, memory and breakdown of plans, for one model, workload and cluster. Immutable except for its
// caches. Use one object per thread; each copy has caches of its own.
//
// Ranks that share cores. Op times are measured with all ranks at work. If ranks_per_core r is above 1, a
// rank whose neighbours idle in a pipeline bubble runs up to r times as fast. The pipeline then takes the
// longer of two times: the pipeline with compute r times as fast as measured, and all its compute as
// measured, spread evenly (the best that the cores can do). What follows the pipeline loads all ranks alike
// and takes its time as measured. So do messages.
//
// The host issues ops while the device runs earlier ones. A rank's host reaches a forward, a backward or a
// part of a backward when the device does. The action has two times: its ops on the device, one after the
// other, and issuing its computes (op_time_model.h: HostOpSeconds); search/ops/hosted_time.h says how long
// both take together. The time that the device waits counts as compute. The other actions have few ops and
// take the device's time.
//
// All plans must be legal and canonical, with a resolved split (split.h), and accepted by CheckPredictable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/memory/memory_model.h"
#include "search/cost/op_sum.h"
#include "search/cost/op_times/op_times.h"
#include "search/cost/shape_corrections.h"
#include "search/cost/stage_costs.h"
#include "search/cost/timing/breakdown.h"
#include "search/cost/timing/busy_rank_bound.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/timing/program_timer.h"
#include "search/cost/timing/step_timers.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/program.h"

namespace autocfg {

struct Prediction {
  bool feasible = false;
  // if not feasible: by how many bytes, or that only the memory margin is exceeded; and the largest region
  std::string reason;
  double step_time_s = 0;
  double step_time_low_s = 0;  // 90% between low and high
  double step_time_high_s = 0;
  MemoryBytes memory;  // the worst rank's
  std::int64_t capacity_bytes = 0;
  Breakdown breakdown;
  std::optional<double> hidden_comm_s = {};  // set where HiddenComm was asked for
};

class CostModel {
 public:
  // `device_overhead_bytes`: a rank's memory beside its arena, measured or from the cluster's description;
  // counts against the capacity. `memory_margin`: the fraction of the capacity that a feasible plan leaves
  // free (search/plan/memory_margin.h).
  CostModel(ModelSpec model, Workload workload, ClusterSpec cluster, std::shared_ptr<const OpTimeModel> times,
            std::int64_t device_overhead_bytes = 0, double memory_margin = 0);
  CostModel(ModelSpec model, Workload workload, ClusterSpec cluster, OpTimes times,
            std::int64_t device_overhead_bytes = 0, double memory_margin = 0);

  // Returns what the cluster's calibration says of the plan's layers and output layer. Their times are
  // multiplied by exp(mean), what the host takes for them included.
  struct Corrections {
    LogCorrection layer, output_layer;
  };
  Corrections CorrectionsOf(const ParallelPlan& plan) const;

  const ModelSpec& model() const { return model_; }
  const Workload& workload() const { return workload_; }
  const ClusterSpec& cluster() const { return cluster_; }
  double memory_margin() const { return memory_margin_; }
  bool knows_every_op() const { return times_->KnowsEveryOp(); }
  double host_op_s() const { return host_op_s_; }  // seconds in which the host issues one op

  // Returns what a rank may take of its device under the margin, and what of it is left for its arena.
  std::int64_t UsableBytes() const;
  std::int64_t UsableArenaBytes() const { return UsableBytes() - device_overhead_bytes_; }

  // Returns the worst rank's regions of the arena, and what the cluster's engine needs beside ours.
  MemoryBytes ArenaOf(const ParallelPlan& plan) const;

  // Returns memory alone: feasible, reason, memory and capacity.
  Prediction PredictMemory(const ParallelPlan& plan) const;

  // Returns memory and an estimate of the time: by the closed form if it is close (closed_form.h) or the
  // program is huge, otherwise by the timer. Low and high are the time itself. Takes a few microseconds if
  // the costs of the plan's blocks are cached. Times are not finite if the op times know no op of a kind.
  Prediction Estimate(const ParallelPlan& plan);

  // Returns Estimate's step time for a host that issues an op in `host_op_s` seconds. About as fast.
  double EstimatedSeconds(const ParallelPlan& plan, double host_op_s);

  // Returns a lower bound of EstimatedSeconds for the host at hand, in a fraction of a microsecond if plans
  // that differ in recompute alone follow one another. It takes the path through the pipeline that stays on
  // one rank between fill and drain (timing/busy_rank_bound.h), and of what follows the computes that of the
  // first rank.
  double SecondsAtLeast(const ParallelPlan& plan);

  // Returns a higher lower bound, by the closed form, in a few microseconds; nothing if EstimatedSeconds
  // takes no longer than that.
  std::optional<double> ClosedFormAtLeast(const ParallelPlan& plan);

  // Returns whether the closed form stands for the plan's time (closed_form.h).
  bool BoundIsClose(const ParallelPlan& plan);

  // As Estimate, with the time of the plan's program by the timer (timing/step_timers.h).
  Prediction Predict(const ParallelPlan& plan);

  // Returns the timed program of the whole plan, with rows of all its ranks. Also requires a program that
  // CheckProgramSize accepts. Throws std::logic_error if the program gets stuck, which would be a bug of
  // Lower.
  TracedStep Trace(const ParallelPlan& plan);

  // Returns the seconds of messages that run while the rank of the pipeline that works longest computes, from
  // the timed program of the plan's pipeline (BreakdownOfRank). What chunks hide of the sums over the
  // tensor group (tp_overlap) is not part of it. Reductions follow the last backward of their rank, so that
  // nothing hides them. Requires and throws as Trace.
  double HiddenComm(const ParallelPlan& plan);

  // Return references that are valid until the next call on this object.
  const PipelineCosts& CostsOf(const ParallelPlan& plan) { return CostsOf(plan, host_op_s_); }
  const BlockCosts& BlocksOf(const ParallelPlan& plan);

 private:
  // What does not depend on the placement of ranks.
  struct BlockOps {
    OpSum layer_forward, layer_backward;
    // Where backwards are split: layer_backward and first_layer_s have the first part, these the other one.
    OpSum layer_weights;
    double first_weights_s = 0;
    // A layer's whole backward, of one that recomputes where backwards are split.
    OpSum recomputing_backward;
    double first_recomputing_s = 0;
    OpSum embedding_forward, embedding_backward, position_forward, position_backward;
    OpSum head_forward, head_backward;
    // The same backwards, which write the gradients that those above add to.
    double first_layer_s = 0, first_embedding_s = 0, first_position_s = 0, first_head_s = 0;
  };
  struct PlanCosts {
    BlockCosts blocks;
    double p2p_s = 0, scalars_s = 0;
  };

  const PipelineCosts& CostsOf(const ParallelPlan& plan, double host_op_s);
  OpSum SumOf(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const;
  OpSum SumOfHead(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const;
  double SecondsOfOps(const ParallelPlan& plan, std::int64_t pipeline_rank, ActionKind kind) const;
  const BlockOps& BlockOpsOf(const ParallelPlan& plan);
  // Without messages between stages and units, and before costs of the engine and corrections.
  const BlockCosts& LayerCostsOf(const ParallelPlan& plan);
  const PlanCosts& PlanCostsOf(const ParallelPlan& plan);
  // Costs of a rank, and what it takes to gather its parameters at the start of a step.
  struct RegionCosts {
    RankCosts rank;
    double gather_norms_s = 0, gather_all_s = 0;
  };
  UnitCosts UnitCostsOf(const ParallelPlan& plan) const;
  double SecondsOfPass(const ParallelPlan& plan) const;  // over the rank's rows of a layer
  const RegionCosts& RegionCostsOf(const ParallelPlan& plan, std::int64_t pipeline_rank);
  RankCosts CostsOfRank(const ParallelPlan& plan, const BlockCosts& blocks, std::int64_t pipeline_rank);
  // Of the first rank: what delays its first forward, and what follows its last compute but the scalars.
  double FirstRankAtLeast(const ParallelPlan& plan) const;
  StageCosts StageAtLeast(const ParallelPlan& plan, std::int64_t layers, bool first, bool last);
  // Sets bound_costs_.
  void FindBoundCosts(const ParallelPlan& plan);
  // Fills alike_ranks_.
  void FindAlikeRanks(const ParallelPlan& plan);
  // Returns whether the timer estimates the plan.
  bool IsTimed(const ParallelPlan& plan, const PipelineCosts& costs) const;
  Breakdown BreakdownOf(const ParallelPlan& plan, const PipelineCosts& costs);
  TimedStep TimeStepOf(const ParallelPlan& plan, const PipelineCosts& costs);
  // Returns TimedStep::worked_s, until the next call.
  const std::vector<double>& WorkedSecondsOf(const ParallelPlan& plan, const PipelineCosts& costs);
  double RanksPerCore() const;

  ModelSpec model_;
  Workload workload_;
  ClusterSpec cluster_;
  std::shared_ptr<const OpTimeModel> times_;
  double host_op_s_;
  ShapeCorrections layers_, output_layers_;
  std::int64_t device_overhead_bytes_;
  std::int64_t capacity_bytes_;
  double memory_margin_;
  // The caches. A key holds whole groups of options (parallel_plan.h), so that a new option of a group
  // becomes part of it.
  static StateOptions StatesOfStages(const ParallelPlan& plan) {  // the default if no compute uses units
    const bool in_computes = ShardsGradients(plan) || OverlapsGradients(plan) || OverlapsParameters(plan);
    return in_computes ? plan.states() : StateOptions();
  }
  struct
      BlockOpsKey {  // sizes and kinds of the ops of a layer, the embedding and the head; recompute is none
    std::int64_t tp;
    LayerOptions layer;
    bool shards_gradients;  // and so never adds to them
    bool embedding_adds;    // to the head's gradient
    bool splits_backward;
    bool operator==(const BlockOpsKey&) const = default;
  };
  struct LayerCostsKey {  // the same, and the ranks of the tensor group
    MeshOptions mesh;
    LayerOptions layer;
    bool shards_gradients;
    bool splits_backward;
    bool operator==(const LayerCostsKey&) const = default;
  };
  struct PlanCostsKey {  // the same, the ranks of each group, and messages between stages
    MeshOptions mesh;
    LayerOptions layer;
    MessageOptions messages;
    StateOptions states;
    bool splits_backward;
    bool operator==(const PlanCostsKey&) const = default;
  };
  struct RegionKey {  // what a rank does with all its parameters
    MeshOptions mesh;
    StateOptions states;
    bool splits_sequence;  // and so sums the gradients of norms
    std::int64_t layers;   // of the rank
    std::size_t place;     // whether it is first and last
    bool operator==(const RegionKey&) const = default;
  };
  // Hashes the options that differ most often; equality compares all of them.
  struct KeyHash {
    std::size_t operator()(const BlockOpsKey& key) const;
    std::size_t operator()(const LayerCostsKey& key) const;
    std::size_t operator()(const PlanCostsKey& key) const;
    std::size_t operator()(const RegionKey& key) const;
  };
  absl::flat_hash_map<BlockOpsKey, BlockOps, KeyHash> block_ops_;
  absl::flat_hash_map<LayerCostsKey, BlockCosts, KeyHash> layer_costs_;
  absl::flat_hash_map<PlanCostsKey, PlanCosts, KeyHash> plan_costs_;
  absl::flat_hash_map<RegionKey, RegionCosts, KeyHash> region_costs_;
  // When the ranks have ended their last backwards depends on nothing that follows these. Plans that differ
  // in what they do once in a step often have the same pipeline.
  struct WorkKey {
    PipelineShape shape;
    std::vector<double> seconds;  // of all its actions
    bool operator==(const WorkKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const WorkKey& key) {  // equality compares all
      return H::combine(std::move(h), key.shape.microbatches, key.seconds);
    }
  };
  absl::flat_hash_map<WorkKey, std::vector<double>> worked_;
  std::size_t worked_sizes_ = 0;  // values in it
  StepTimers timers_;
  PipelineCosts costs_;  // of the last plan; reused to avoid allocations
  // What the last plan of SecondsAtLeast has in common with the next one.
  struct BoundCosts {
    MeshOptions mesh{.tp = 0};
    LayerOptions layer;
    MessageOptions messages;
    StateOptions states;
    Schedule schedule = Schedule::kOneFOneB;
    std::int64_t first_rank_layers = 0;
    PlanCosts plan;
    RegionCosts first_rank;
    struct Stage {
      std::int64_t layers = -1;
      StageCosts without_recompute;
    };
    std::array<Stage, 4> stages;  // by whether it is the first, and the last
  };
  BoundCosts bound_costs_;
  std::vector<AlikeRanks> alike_ranks_;
};

}  // namespace autocfg
