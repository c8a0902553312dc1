// plan -> predicted time, memory and breakdown, for one model, workload and cluster. Immutable but for its
// caches; one object per thread (copies are cheap in code, each with caches of its own).
//
// Ranks that share cores. Op times are measured with every rank at work. Where ranks_per_core r is above 1, a
// rank whose neighbours idle in a pipeline bubble runs up to r times as fast. The pipeline then takes the
// longer of: the pipeline with compute r times as fast as measured, and all its compute as measured, spread
// evenly (what the cores can do at most). What follows the pipeline loads all ranks alike and takes its time
// as measured. So do messages.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/memory_model.h"
#include "search/cost/op_times.h"
#include "search/cost/pipeline_simulator.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/program.h"

namespace autocfg {

// Seconds of one step; the parts add up to the whole.
struct Breakdown {
  double compute = 0;
  double recompute = 0;  // its tensor-parallel communication included
  double tp_comm = 0;
  double pp_comm = 0;
  double dp_comm = 0;
  double bubble = 0;
  double optimizer = 0;
  double overhead = 0;

  double Total() const {
    return compute + recompute + tp_comm + pp_comm + dp_comm + bubble + optimizer + overhead;
  }
};

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

// What one action of a stage costs, from layer_ops and op times, all ranks at work.
struct StageCosts {
  double forward_s = 0;
  double backward_s = 0;      // recomputation included
  double recompute_s = 0;     // of backward_s
  double tp_forward_s = 0;    // of forward_s
  double tp_backward_s = 0;   // of backward_s, without tp_recompute_s
  double tp_recompute_s = 0;  // of recompute_s
  double optimizer_s = 0;     // zeroing, norm, update
  double zero_s = 0;          // of optimizer_s
  double norm_s = 0;          // of optimizer_s: the sums of squares
  double reduce_s = 0;        // data-parallel reduction
  double tied_s = 0;          // sum of the tied embedding
  double scalars_s = 0;       // sum of the scalars over all ranks
  double p2p_s = 0;           // one message to a neighbour

  double UpdateSeconds() const { return optimizer_s - zero_s - norm_s; }
};

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

  // Memory alone; fills feasible, reason, memory, capacity.
  Prediction PredictMemory(const ParallelPlan& plan) const;

  // Memory and time by the closed form (closed_form.h). Low and high are set to the time itself. About a
  // microsecond where the costs of the plan's stages are cached. Times are infinite where OpTimes knows no op
  // of a kind. Requires a legal, resolved plan that the engine supports.
  Prediction Predict(const ParallelPlan& plan);

  // Memory and time from the simulated program. Requires the same. A program that gets stuck would be a bug of
  // Lower: it throws std::logic_error.
  Prediction Simulate(const ParallelPlan& plan);

  // The simulated program of the whole plan: rows of all its ranks. Requires the same, and a program that CheckProgramSize takes.
  SimulatedStep Trace(const ParallelPlan& plan);

  // Valid until the next call on this object.
  const StageCosts& CostsOf(const ParallelPlan& plan, std::int64_t pipeline_rank);

 private:
  // Sums over the ops of one layer.
  struct LayerCosts {
    StageCosts costs;  // forward to tp_recompute
    double norm_s = 0;
    double update_s = 0;
  };
  const LayerCosts& LayerCostsOf(const ParallelPlan& plan);
  StageCosts MakeCosts(const ParallelPlan& plan, std::int64_t pipeline_rank);
  void GatherStages(const ParallelPlan& plan);
  double RanksPerCore() const;

  ModelSpec model_;
  Workload workload_;
  ClusterSpec cluster_;
  std::shared_ptr<const OpTimeModel> times_;
  std::int64_t device_overhead_bytes_;
  std::int64_t capacity_bytes_;
  // Key: tp, dp, layers of the stage, first/last flags, micro_batch, recompute, pp (messages and the world's
  // size depend on it).
  absl::flat_hash_map<std::array<std::int64_t, 8>, StageCosts> stage_costs_;
  absl::flat_hash_map<std::array<std::int64_t, 3>, LayerCosts> layer_costs_;  // tp, micro_batch, recompute
  std::vector<StageCosts> stages_;  // of the plan at hand, kept to spare allocations
};

}  // namespace autocfg
