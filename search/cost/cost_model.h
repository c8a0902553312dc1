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
#include "search/cost/op_times/op_times.h"
#include "search/cost/plan_costs.h"
#include "search/cost/step_bounds.h"
#include "search/cost/timing/breakdown.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/timing/program_timer.h"
#include "search/cost/timing/step_timers.h"
#include "search/plan/run.h"
#include "search/schedule/program.h"

namespace autocfg {

struct Prediction {
  bool feasible = false;
  // if not feasible: by how many bytes, or that only the memory margin is exceeded; and the largest region
  std::string reason;
  double step_time_s = 0;
  double step_time_low_s = 0;  // 90% between low and high
  double step_time_high_s = 0;
  MemoryBytes memory;                 // the worst rank's
  std::int64_t memory_low_bytes = 0;  // 90% of its total between low and high
  std::int64_t memory_high_bytes = 0;
  std::int64_t capacity_bytes = 0;
  Breakdown breakdown;
  std::optional<double> hidden_comm_s = {};  // set where HiddenComm was asked for
};

class CostModel {
 public:
  // `device_overhead_bytes`: a rank's memory beside its arena, measured or from the cluster's description;
  // counts against the capacity. `memory_margin`: the fraction of the capacity that a feasible plan leaves
  // free (search/plan/cluster/memory_margin.h).
  CostModel(Problem problem, std::shared_ptr<const OpTimeModel> times, std::int64_t device_overhead_bytes = 0,
            double memory_margin = 0);
  CostModel(Problem problem, OpTimes times, std::int64_t device_overhead_bytes = 0, double memory_margin = 0);

  using Corrections = PlanCosts::Corrections;
  Corrections CorrectionsOf(const ParallelPlan& plan) const { return costs_.CorrectionsOf(plan); }

  const Problem& problem() const { return costs_.problem(); }
  const ModelSpec& model() const { return problem().model; }
  const Workload& workload() const { return problem().workload; }
  const ClusterSpec& cluster() const { return problem().cluster; }
  double memory_margin() const { return memory_margin_; }
  bool knows_every_op() const { return costs_.op_times().KnowsEveryOp(); }
  double host_op_s() const { return host_op_s_; }  // seconds in which the host issues one op

  // Returns what a rank may take of its device under the margin, and what of it is left for its arena.
  std::int64_t UsableBytes() const;
  std::int64_t UsableArenaBytes() const;
  // Returns what the engine's allocator holds beside so many allocated bytes: no more than is left.
  std::int64_t AllocatorReserve(std::int64_t allocated) const;

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
  // that differ in recompute alone follow one another (StepBounds).
  double SecondsAtLeast(const ParallelPlan& plan) { return bounds_.StepAtLeast(costs_, plan, host_op_s_); }

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

  // Returns the seconds of messages and collectives that run while the rank of the pipeline that computes
  // longest computes: messages between stages from the timed program of the plan's pipeline
  // (BreakdownOfRank), collectives from the costs of its stages. A collective of the data axis that runs
  // while the rank waits for one of the tensor group counts too. Requires and throws as Trace.
  double HiddenComm(const ParallelPlan& plan);

  // Return references that are valid until the next call on this object.
  const PipelineCosts& CostsOf(const ParallelPlan& plan) { return costs_.PipelineOf(plan, host_op_s_); }
  const BlockCosts& BlocksOf(const ParallelPlan& plan) { return costs_.BlocksOf(plan); }

 private:
  // Returns whether the timer estimates the plan.
  bool IsTimed(const ParallelPlan& plan, const PipelineCosts& costs) const;
  Breakdown BreakdownOf(const ParallelPlan& plan, const PipelineCosts& costs);
  // Returns PredictMemory with the time.
  Prediction WithTime(const ParallelPlan& plan, const Breakdown& breakdown) const;
  // Returns TimedStep::worked_s, until the next call.
  const std::vector<double>& WorkedSecondsOf(const ParallelPlan& plan, const PipelineCosts& costs);

  PlanCosts costs_;
  StepBounds bounds_;
  double host_op_s_;
  std::int64_t device_overhead_bytes_;
  std::int64_t capacity_bytes_;
  double memory_margin_;
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
};

}  // namespace autocfg
