// Predicts one plan from the figures of a described cluster, without hardware. The common path of `predict`,
// `explain` and comparisons with published configurations. User input causes no exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/cost/timing/program_timer.h"
#include "search/plan/run.h"
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
Throughput ThroughputOf(const Problem& problem, const ParallelPlan& plan, double step_time_s);

struct PlanPrediction {
  std::string engine;           // whose step it is (EngineText)
  std::int64_t parameters = 0;  // of the model
  ParallelPlan plan;            // canonical; split=auto resolved
  // options without effect; ranks without work; how the time was found if not by the timer
  std::vector<std::string> notes;
  Prediction prediction;                 // a plan that does not fit still has a time
  std::vector<std::int64_t> rank_bytes;  // what each pipeline rank allocates
  Throughput throughput;
};

// Returns the note about predictions of a model that NamesRopeScalingAlone.
std::string RopeScalingNote(const ModelSpec& model);

// Op times that were measured on the cluster itself, in place of its figures.
struct MeasuredOpTimes {
  std::shared_ptr<const OpTimeModel> times;
  std::int64_t device_overhead_bytes = 0;
  // Returns the standard deviation of log(measured / predicted) of a step of the plan.
  std::function<double(const ParallelPlan&, const Breakdown&)> sigma;
};

// Predictions that share a model, a workload and a cluster, and therefore the costs of their stages. Not
// thread-safe.
class Predictor {
 public:
  // InvalidArgument names an invalid field of a specification (search/plan), or a figure that the cluster
  // lacks (search/cost/op_times/cluster_op_times.h). Unimplemented: a part of the model that cannot be
  // predicted yet. Defaults of the model must be filled in. `memory_margin`: as of CostModel; InvalidArgument
  // unless CheckMemoryMargin accepts it.
  static absl::StatusOr<Predictor> Create(const Problem& problem, double memory_margin = 0);
  // As Create, by measured op times. The cluster may be local. Predict then returns FailedPrecondition about
  // the subject "cluster" if the times allow no estimate of an op of the plan.
  static absl::StatusOr<Predictor> Create(const Problem& problem, double memory_margin,
                                          MeasuredOpTimes measured);

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
  // Returns true if the plan has too many microbatches for the timer, and its lower bound is close.
  bool IsBounded(const ParallelPlan& plan);
  // Sets the interval of the prediction, and adds what is to be said of its step.
  void SetInterval(PlanPrediction& result);

  CostModel costs_;
  std::function<double(const ParallelPlan&, const Breakdown&)> sigma_;  // set if op times were measured
};

// Runs Predictor::Create, then Predict.
absl::StatusOr<PlanPrediction> PredictPlan(const PlannedRun& run);

// Keeps the most recently used predictors, for streams of requests. Not thread-safe.
class PredictorCache {
 public:
  // Returns the predictor of this question; valid until the next call. Errors as of Predictor::Create.
  absl::StatusOr<Predictor*> Find(const Problem& problem, double memory_margin = 0);

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
