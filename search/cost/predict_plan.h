// Predicts one plan from the figures of a described cluster, without hardware. The common path of `predict`,
// `explain` and comparisons with published configurations. User input causes no exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/cost/timing/program_timer.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/program.h"

namespace autocfg {

struct Throughput {
  double tokens_per_s = 0;                  // of the whole plan
  double tokens_per_s_per_gpu = 0;          // this and the rest: per rank of the plan
  double model_flops_per_s_per_gpu = 0;     // ModelFlops: without recomputation
  double hardware_flops_per_s_per_gpu = 0;  // HardwareFlops: with recomputation
  std::optional<double> mfu;  // model FLOPs over the device's peak; empty if the peak is unknown
};

// Returns the tokens of a step over its time; 0 if the time is not positive.
double TokensPerSecond(const Workload& workload, double step_time_s);

// Returns the rates of a step of `step_time_s` seconds; all zero if that is not positive. Requires a legal
// plan and a cluster with a node group. The peak is that of the first group.
Throughput ThroughputOf(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                        const ParallelPlan& plan, double step_time_s);

// The 90% interval around a step time without measurements of its cluster: the relative margins below and
// above.
//
// First figures: models of this kind miss runs that they were not fitted to by 8 to 9% (one standard
// deviation), of which 1.64 cover 90%. The rest allows for devices without any observed run. Real runs lose
// time in more ways than they gain it: no published run examined lies below, and 91% of 45 runs on many nodes
// of A100s (measurements published with vTrain, 2024) lie within; 84% would with 20% above. A calibrated
// cluster's interval comes from its fit.
inline constexpr double kUncalibratedBelow = 0.20;
inline constexpr double kUncalibratedAbove = 0.30;

// Seconds in which a slow host, with a framework that issues its ops from a script, issues one op of
// layer_ops.h; an op of several kernels counts all their launches.
//
// This is an upper figure, from the step times of small GPTs on A100s in the measurements published with
// vTrain (2024). There a layer's forward, recomputation and backward take at least 3.0 to 3.2 ms on one GPU
// (130 us for each of our 24 ops), and 3.7 to 5.0 ms over eight (up to 156 us for each of 32). Work outside
// the layers adds to that. With this figure, the upper bound is above 95% of those step times.
inline constexpr double kScriptedHostOpSeconds = 170e-6;

// Sets the low and high bounds around step_time_s by these margins. If the cluster does not give its host's
// speed, the high bound is at least the step time with such a framework; returns true if that raises it.
// Applies to GPUs only: a CPU is its own host. `plan` is the prediction's plan in the form that CostModel
// requires.
bool SetUncalibratedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan);

struct PlanPrediction {
  ParallelPlan plan;  // canonical; split=auto resolved
  // options without effect; how the time was found if not by the timer
  std::vector<std::string> notes;
  Prediction prediction;  // a plan that does not fit still has a time
  Throughput throughput;
};

// Returns the note about predictions of a model with a rope_scaling.
std::string RopeScalingNote(const ModelSpec& model);

// Predictions that share a model, a workload and a cluster, and therefore the costs of their stages. Not
// thread-safe.
class Predictor {
 public:
  // InvalidArgument names an invalid field of a specification (search/plan), or a figure that the cluster
  // lacks (search/cost/op_times/cluster_op_times.h). Unimplemented: a part of the model that cannot be
  // predicted yet. Defaults of the model must be filled in.
  static absl::StatusOr<Predictor> Create(const ModelSpec& model, const Workload& workload,
                                          const ClusterSpec& cluster);

  // InvalidArgument: the plan is illegal, with the reason in a sentence. It may use fewer ranks than the
  // cluster has. Unimplemented: an option that cannot be predicted yet.
  absl::StatusOr<PlanPrediction> Predict(const ParallelPlan& plan);

  // The predicted timeline of every rank, and its program. InvalidArgument also if the program is too large
  // to show (search/schedule/program.h).
  struct Trace {
    Program program;
    TracedStep step;
  };
  absl::StatusOr<Trace> TraceOf(const ParallelPlan& plan);

  // Returns the plan in the form that is predicted: canonical, with a resolved split. Errors as of Predict.
  absl::StatusOr<ParallelPlan> Resolve(const ParallelPlan& plan);

  CostModel& costs() { return costs_; }

 private:
  explicit Predictor(CostModel costs) : costs_(std::move(costs)) {}

  CostModel costs_;
};

// Runs Predictor::Create, then Predict.
absl::StatusOr<PlanPrediction> PredictPlan(const ModelSpec& model, const Workload& workload,
                                           const ClusterSpec& cluster, const ParallelPlan& plan);

// Keeps the most recently used predictors, for streams of requests. Not thread-safe.
class PredictorCache {
 public:
  // Returns the predictor of this question; valid until the next call. Errors as of Predictor::Create.
  absl::StatusOr<Predictor*> Find(const ModelSpec& model, const Workload& workload,
                                  const ClusterSpec& cluster);

 private:
  struct Entry {
    Predictor predictor;
    std::int64_t uses = 0;
  };
  static constexpr std::size_t kMostPredictors = 32;
  static constexpr std::int64_t kMostUses = 20'000;  // then it is rebuilt: its cost cache only grows

  std::list<Entry> entries_;  // most recently used first
};

}  // namespace autocfg
