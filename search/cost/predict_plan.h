// One plan's prediction from the figures of a described cluster, without hardware: the one path of `predict`,
// of `explain` and of whatever asks what a published configuration takes. Throws nothing for what people can
// ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/cost/program_timer.h"
#include "search/cost/throughput.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/program.h"

namespace autocfg {

// The 90% interval around a step time that no measurement of its cluster stands behind: by how much less and
// more it may be, relative. First figures: models of this kind miss runs that they were not fitted to by 8 to
// 9% (one deviation), of which 1.64 hold 90%; the rest is for devices of which no run was seen at all. Real
// runs lose time in more ways than they gain any: no published run that was looked at is below, and 91% of 45
// on many nodes of A100s (measurements published with vTrain, 2024) are within, 84% with 20% above. A
// calibrated cluster's interval comes from its fit.
inline constexpr double kUncalibratedBelow = 0.20;
inline constexpr double kUncalibratedAbove = 0.30;

// Seconds in which a slow host with a framework that issues its ops from a script issues one of those in
// layer_ops.h: the launches of what it takes several kernels for, together. An upper figure, from the step
// times of small GPTs on A100s in the measurements published with vTrain (2024): there a layer's forward,
// recomputation and backward take no less than 3.0 to 3.2 ms on one GPU, 130 us for each of our 24 ops, and
// 3.7 to 5.0 ms over eight, up to 156 us for each of 32; what a microbatch takes beside its layers adds to
// that. High is above 95% of those step times with it.
inline constexpr double kScriptedHostOpSeconds = 170e-6;

// Low and high as that says, around step_time_s; and high no less than what the step would take with such a
// framework, where the cluster does not say how fast its host is. True where that makes it higher. GPUs
// alone: a CPU is its own host. `plan` is the prediction's, as CostModel wants it.
bool SetUncalibratedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan);

struct PlanPrediction {
  ParallelPlan plan;  // canonical; split=auto resolved
  // options with nothing to act on; how the time was found, if not by the timer
  std::vector<std::string> notes;
  Prediction prediction;  // a plan that does not fit is timed all the same
  Throughput throughput;
};

// What is to know of a prediction of a model with a rope_scaling.
std::string RopeScalingNote(const ModelSpec& model);

// Predictions that share a model, a workload and a cluster, and so the costs of their stages. Not
// thread-safe.
class Predictor {
 public:
  // InvalidArgument names the field: a specification that is not valid (search/plan), a figure that the
  // cluster lacks (search/cost/cluster_op_times.h). Unimplemented: a model with a part that nothing predicts
  // yet. Defaults of the model must be filled in.
  static absl::StatusOr<Predictor> Create(const ModelSpec& model, const Workload& workload,
                                          const ClusterSpec& cluster);

  // InvalidArgument: the plan is illegal, with the reason in a sentence; it may use fewer ranks than the
  // cluster has. Unimplemented: an option that is not predicted yet.
  absl::StatusOr<PlanPrediction> Predict(const ParallelPlan& plan);

  // The plan's program, and when every action of it begins and ends. InvalidArgument also if the program is too
  // large to be shown (search/schedule/program_size.h).
  struct Trace {
    Program program;
    TracedStep step;
  };
  absl::StatusOr<Trace> TraceOf(const ParallelPlan& plan);

  // The plan in the form that is predicted: canonical, split resolved. Errors as Predict's.
  absl::StatusOr<ParallelPlan> Resolve(const ParallelPlan& plan);

  CostModel& costs() { return costs_; }

 private:
  explicit Predictor(CostModel costs) : costs_(std::move(costs)) {}

  CostModel costs_;
};

// One prediction: Predictor::Create, then Predict.
absl::StatusOr<PlanPrediction> PredictPlan(const ModelSpec& model, const Workload& workload,
                                           const ClusterSpec& cluster, const ParallelPlan& plan);

// Keeps the predictors of the questions asked last, for streams of requests. Not thread-safe.
class PredictorCache {
 public:
  // The predictor of this question; valid until the next call. Errors as Predictor::Create's.
  absl::StatusOr<Predictor*> Find(const ModelSpec& model, const Workload& workload,
                                  const ClusterSpec& cluster);

 private:
  struct Entry {
    Predictor predictor;
    std::int64_t uses = 0;
  };
  static constexpr std::size_t kMostPredictors = 32;
  static constexpr std::int64_t kMostUses = 20'000;  // then it is made anew: its cost cache only grows

  std::list<Entry> entries_;  // used last first
};

}  // namespace autocfg
