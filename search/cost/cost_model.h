// plan -> predicted time, memory and breakdown, for one model, workload and cluster. Immutable but for its caches; one object per
// thread (copies are cheap in code, each with caches of its own).
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "search/cost/memory_model.h"
#include "search/cost/op_times.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/program.h"

namespace autocfg {

// Seconds of one step; the parts add up to the whole.
struct Breakdown {
  double compute = 0;
  double recompute = 0;
  double tp_comm = 0;
  double pp_comm = 0;
  double dp_comm = 0;
  double bubble = 0;
  double optimizer = 0;
  double overhead = 0;

  double Total() const { return compute + recompute + tp_comm + pp_comm + dp_comm + bubble + optimizer + overhead; }
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

// What one action of a stage costs, from layer_ops and op times.
struct StageCosts {
  double forward_s = 0;
  double backward_s = 0;      // recomputation included
  double recompute_s = 0;     // of backward_s
  double tp_forward_s = 0;    // of forward_s
  double tp_backward_s = 0;   // of backward_s
  double optimizer_s = 0;     // zeroing, norm, update
  double reduce_s = 0;        // data-parallel reduction
  double tied_s = 0;          // sum of the tied embedding
  double scalars_s = 0;
  double p2p_s = 0;           // one message to a neighbour
};

class CostModel {
 public:
  // `device_overhead_bytes`: what a rank takes beside its arena, measured; counts against the capacity.
  CostModel(ModelSpec model, Workload workload, ClusterSpec cluster, OpTimes times, std::int64_t device_overhead_bytes = 0);

  const ModelSpec& model() const { return model_; }
  const Workload& workload() const { return workload_; }
  const ClusterSpec& cluster() const { return cluster_; }

  // Memory alone; fills feasible, reason, memory, capacity.
  Prediction PredictMemory(const ParallelPlan& plan);

  // Memory and time by the closed form: (m - 1) times the slowest stage plus one pass through all stages, plus what follows the pipeline
  // (Narayanan et al. 2021, section 2.2, generalised to unequal stages). Low and high are set to the time itself. A few microseconds
  // where the costs of the plan's stages are cached. Requires a legal, resolved plan.
  Prediction Predict(const ParallelPlan& plan);

  // Memory and time from the simulated program. Requires the same.
  Prediction Simulate(const ParallelPlan& plan);

  const StageCosts& CostsOf(const ParallelPlan& plan, std::int64_t pipeline_rank);

 private:
  ModelSpec model_;
  Workload workload_;
  ClusterSpec cluster_;
  OpTimes times_;
  std::int64_t device_overhead_bytes_;
  // Key: tp, dp, layers of the stage, first/last flags, micro_batch, recompute, whether pp > 1.
  absl::flat_hash_map<std::array<std::int64_t, 8>, StageCosts> stage_costs_;
};

}  // namespace autocfg
