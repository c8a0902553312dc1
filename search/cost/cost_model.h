// plan -> predicted time, memory and breakdown, for one model, workload and cluster. Immutable but for its
// caches; one object per thread (copies are cheap in code, each with caches of its own).
//
// Ranks that share cores. Op times are measured with every rank at work. Where ranks_per_core r is above 1, a
// rank whose neighbours idle in a pipeline bubble runs up to r times as fast. The pipeline then takes the
// longer of: the pipeline with compute r times as fast as measured, and all its compute as measured, spread
// evenly (what the cores can do at most). What follows the pipeline loads all ranks alike and takes its time
// as measured. So do messages.
//
// The host issues ops while the device runs those before. A rank's host comes to a forward or a backward when
// the device does, and the action takes the longer of its ops on the device, one after the other, and of
// issuing them all, messages over the tensor group counted (op_time_model.h: HostOpSeconds). What the device
// waits for then counts as compute. The other actions are of few ops, and take what the device takes.
//
// All plans are to be legal, canonical ones that CheckPredictable takes, with a resolved split (split.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/memory_model.h"
#include "search/cost/op_times.h"
#include "search/cost/pipeline_costs.h"
#include "search/cost/program_timer.h"
#include "search/cost/step_timers.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/program.h"

namespace autocfg {

struct Prediction {
  bool feasible = false;
  std::string reason;  // where not feasible: by how many bytes, and the largest region
  double step_time_s = 0;
  double step_time_low_s = 0;  // 90% between low and high
  double step_time_high_s = 0;
  MemoryBytes memory;  // the worst rank's
  std::int64_t capacity_bytes = 0;
  Breakdown breakdown;
};

// What the costs of stages are put together from.
struct PartCosts {
  StageCosts layer;      // one that does not recompute
  StageCosts recompute;  // what one that recomputes adds to its backward
  StageCosts embedding;
  StageCosts head;
};

// A stage with so many layers, of which so many recompute, where the host issues an op in `host_op_s`.
StageCosts CostsOfStage(const PartCosts& parts, std::int64_t layers, std::int64_t recomputing, bool first,
                        bool last, double host_op_s);

class CostModel {
 public:
  // `device_overhead_bytes`: what a rank takes beside its arena, measured; counts against the capacity.
  CostModel(ModelSpec model, Workload workload, ClusterSpec cluster, std::shared_ptr<const OpTimeModel> times,
            std::int64_t device_overhead_bytes = 0);
  CostModel(ModelSpec model, Workload workload, ClusterSpec cluster, OpTimes times,
            std::int64_t device_overhead_bytes = 0);

  const ModelSpec& model() const { return model_; }
  const Workload& workload() const { return workload_; }
  const ClusterSpec& cluster() const { return cluster_; }
  double host_op_s() const { return host_op_s_; }  // in which the host issues one op

  // Memory alone; fills feasible, reason, memory, capacity.
  Prediction PredictMemory(const ParallelPlan& plan) const;

  // Memory and time by the closed form (closed_form.h) if that is close, otherwise by the timer. Low and high
  // are set to the time itself. A few microseconds if the costs of the plan's parts are cached. Times are not
  // finite if the op times know no op of a kind.
  Prediction Predict(const ParallelPlan& plan);

  // Predict's step time, were the host to issue an op in `host_op_s` (op_time_model.h). About as fast.
  double PredictedSeconds(const ParallelPlan& plan, double host_op_s);

  // Memory, and the time that the plan's program takes (step_timers.h).
  Prediction Simulate(const ParallelPlan& plan);

  // The timed program of the whole plan: rows of all its ranks. Also requires a program that
  // CheckProgramSize takes. One that gets stuck would be a bug of Lower: it throws std::logic_error.
  TracedStep Trace(const ParallelPlan& plan);

  // These are valid until the next call on this object.
  const PipelineCosts& CostsOf(const ParallelPlan& plan) { return CostsOf(plan, host_op_s_); }
  const PartCosts& PartsOf(const ParallelPlan& plan);

 private:
  // Seconds of a list of ops that are the same under every plan, and its messages, which are not.
  struct OpSum {
    double compute_s = 0;
    double ops = 0;  // all of them
    std::vector<OpDesc> messages;
  };
  // What does not depend on where ranks stand.
  struct ComputeParts {
    OpSum layer_forward, layer_recompute, layer_backward;
    OpSum embedding_forward, embedding_backward, head_forward, head_backward;
  };
  struct PlanParts {
    PartCosts parts;
    double p2p_s = 0, tied_s = 0, scalars_s = 0;
  };

  const PipelineCosts& CostsOf(const ParallelPlan& plan, double host_op_s);
  OpSum SumOf(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const;
  double ActionSeconds(const ParallelPlan& plan, std::int64_t pipeline_rank, ActionKind kind) const;
  const ComputeParts& ComputePartsOf(const ParallelPlan& plan);
  const PlanParts& PlanPartsOf(const ParallelPlan& plan);
  RankCosts CostsOfRank(const ParallelPlan& plan, std::int64_t pipeline_rank);
  Breakdown PartsOfStep(const ParallelPlan& plan, const PipelineCosts& costs);
  TimedStep TimeStepOf(const ParallelPlan& plan, const PipelineCosts& costs);
  double RanksPerCore() const;

  ModelSpec model_;
  Workload workload_;
  ClusterSpec cluster_;
  std::shared_ptr<const OpTimeModel> times_;
  double host_op_s_;
  std::int64_t device_overhead_bytes_;
  std::int64_t capacity_bytes_;
  // The caches. A key holds whole groups of options (parallel_plan.h), so that a new option of a group is
  // part of it.
  struct ComputeKey {  // sizes and kinds of the ops of a layer
    std::int64_t tp;
    LayerOptions layer;
    bool operator==(const ComputeKey&) const = default;
  };
  struct PlanPartsKey {  // the same, the ranks of each group, and messages between stages
    MeshOptions mesh;
    LayerOptions layer;
    MessageOptions messages;
    bool operator==(const PlanPartsKey&) const = default;
  };
  struct RegionKey {  // what a rank does with all its parameters
    MeshOptions mesh;
    StateOptions states;
    std::int64_t layers;  // of the rank
    std::size_t place;    // whether it is first and last
    bool operator==(const RegionKey&) const = default;
  };
  // Hashes the options that differ most often; equality compares all of them.
  struct KeyHash {
    std::size_t operator()(const ComputeKey& key) const;
    std::size_t operator()(const PlanPartsKey& key) const;
    std::size_t operator()(const RegionKey& key) const;
  };
  absl::flat_hash_map<ComputeKey, ComputeParts, KeyHash> compute_parts_;
  absl::flat_hash_map<PlanPartsKey, PlanParts, KeyHash> plan_parts_;
  absl::flat_hash_map<RegionKey, RankCosts, KeyHash> region_costs_;
  StepTimers timers_;
  PipelineCosts costs_;  // of the plan at hand, kept to spare allocations
};

}  // namespace autocfg
