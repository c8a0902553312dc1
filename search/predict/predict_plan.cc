#include "search/predict/predict_plan.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/cost/engine_costs.h"
#include "search/cost/memory/memory_model.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/split.h"
#include "search/cost/timing/closed_form.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"
#include "search/predict/prediction_interval.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

// Limit for the timer, in microbatches x pipeline ranks. One rank stands for its tensor and data group. A
// step that never repeats is timed completely, so the limit bounds the time of a prediction.
constexpr std::int64_t kMostTimerSteps = std::int64_t{1} << 16;

constexpr double kNoticeable = 0.01;  // fraction of a step; smaller effects get no note

bool IsWithinTimerLimit(const Workload& workload, const ParallelPlan& plan) {
  return MicrobatchCount(workload, plan) <= kMostTimerSteps / plan.pp;
}

// Says that the step is, or may be, bound by the host rather than the device.
std::string LaunchBoundNote(const Prediction& prediction, double host_op_s, const ParallelPlan& plan) {
  const char* const larger = SplitsLayers(plan) ? "a larger micro_batch or a lower tp makes larger ones"
                                                : "a larger micro_batch makes larger ones";
  if (host_op_s > 0) {
    return fmt::format(
        "launch-bound: the host takes longer to issue the ops, {:g} s each by host_op_s of the cluster or "
        "the engine, than the device to run them; {}",
        host_op_s, larger);
  }
  return fmt::format(
      "launch-bound: ops so small that a framework which issues them from a script may take up to {:.1f} "
      "times as long; {}, and the cluster's host_op_s says what its host takes",
      prediction.step_time_high_s / prediction.step_time_s, larger);
}

absl::Status CheckQuestion(const Problem& problem, double memory_margin) {
  AUTOCFG_RETURN_IF_ERROR(Validate(problem));
  AUTOCFG_RETURN_IF_ERROR(CheckPredictable(problem.model));
  return CheckMemoryMargin(memory_margin);
}

}  // namespace

std::string RopeScalingNote(const ModelSpec& model) {
  return fmt::format("rope_scaling {} changes neither time nor memory; running it needs its parameters",
                     Name(model.rope_scaling));
}

absl::StatusOr<Predictor> Predictor::Create(const Problem& problem, double memory_margin) {
  AUTOCFG_RETURN_IF_ERROR(CheckQuestion(problem, memory_margin));
  AUTOCFG_ASSIGN_OR_RETURN(auto times, ClusterOpTimes::Create(problem.cluster, problem.workload.precision));
  return Predictor(CostModel(problem, std::move(times), DeviceOverheadBytes(problem.cluster), memory_margin));
}

absl::StatusOr<Predictor> Predictor::Create(const Problem& problem, double memory_margin,
                                            MeasuredOpTimes measured) {
  AUTOCFG_RETURN_IF_ERROR(CheckQuestion(problem, memory_margin));
  Predictor predictor(
      CostModel(problem, std::move(measured.times), measured.device_overhead_bytes, memory_margin));
  predictor.sigma_ = std::move(measured.sigma);
  return predictor;
}

bool Predictor::IsBounded(const ParallelPlan& plan) {
  return plan.pp > 1 && !IsWithinTimerLimit(costs_.workload(), plan) && costs_.BoundIsClose(plan);
}

absl::StatusOr<ParallelPlan> Predictor::Resolve(const ParallelPlan& plan) {
  const std::int64_t ranks = RankCount(costs_.cluster());
  AUTOCFG_RETURN_IF_ERROR(CheckLegal(costs_.problem().With(plan), ranks));
  AUTOCFG_RETURN_IF_ERROR(CheckPredictable(plan));
  return ResolveToFaster(costs_, Canonical(WithEngineOverlap(TimedEngine(costs_.cluster()), plan)),
                         [&](const ParallelPlan& split) {
                           return IsBounded(split) ? costs_.Estimate(split) : costs_.Predict(split);
                         });
}

absl::StatusOr<PlanPrediction> Predictor::Predict(const ParallelPlan& plan) {
  AUTOCFG_ASSIGN_OR_RETURN(auto resolved, Resolve(plan));
  PlanPrediction result{.engine = EngineText(costs_.cluster().engine),
                        .parameters = ParameterCount(costs_.model()),
                        .plan = std::move(resolved),
                        .notes = Notes(plan),
                        .prediction = {},
                        .rank_bytes = {},
                        .throughput = {}};
  if (const std::int64_t used = RankCount(plan), ranks = RankCount(costs_.cluster()); used < ranks) {
    result.notes.push_back(fmt::format("uses {} of {} ranks; the others are idle", base::CountText(used),
                                       base::CountText(ranks)));
  }
  if (NamesRopeScalingAlone(costs_.model())) result.notes.push_back(RopeScalingNote(costs_.model()));
  if (plan.split == SplitMode::kAuto && plan.pp > 1) {
    result.notes.push_back(fmt::format("split=auto is {}", SplitText(result.plan)));
  }
  if (IsBounded(result.plan)) {
    result.prediction = costs_.Estimate(result.plan);
    result.notes.push_back(fmt::format(
        "timed by the closed form, a lower bound: {} microbatches over pp={} are too many for the timer",
        MicrobatchCount(costs_.workload(), result.plan), result.plan.pp));
  } else {
    result.prediction = costs_.Predict(result.plan);
  }
  const double seconds = result.prediction.step_time_s;
  if (sigma_ && !std::isfinite(seconds)) {
    return base::SubjectError(absl::StatusCode::kFailedPrecondition, "cluster",
                              fmt::format("the measured op times lack ops of {}", PlanText(result.plan)));
  }
  if (!std::isfinite(seconds) || !(seconds > 0)) {
    return base::InvalidArgument(
        "cluster",
        fmt::format("its figures make a step of {} s; correct its rates, bandwidths and latencies", seconds));
  }
  result.rank_bytes = RankArenas(costs_.problem().With(result.plan), costs_.cluster().engine);
  SetInterval(result);
  result.throughput = ThroughputOf(costs_.problem(), result.plan, seconds);
  return result;
}

void Predictor::SetInterval(PlanPrediction& result) {
  Prediction& prediction = result.prediction;
  if (sigma_) {
    const double factor = std::exp(kSigmasOf90Percent * sigma_(result.plan, prediction.breakdown));
    prediction.step_time_low_s = prediction.step_time_s / factor;
    prediction.step_time_high_s = prediction.step_time_s * factor;
    return;
  }
  const double host_op_s = costs_.host_op_s();
  const bool host_may_bound = SetDescribedInterval(prediction, costs_, result.plan);
  const bool host_bounds = host_op_s > 0 && costs_.EstimatedSeconds(result.plan, host_op_s) >
                                                (1 + kNoticeable) * costs_.EstimatedSeconds(result.plan, 0);
  if (host_may_bound || host_bounds)
    result.notes.push_back(LaunchBoundNote(prediction, host_op_s, result.plan));
}

absl::StatusOr<Predictor::Trace> Predictor::TraceOf(const ParallelPlan& plan) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto resolved, Resolve(plan));
  AUTOCFG_RETURN_IF_ERROR(CheckProgramSize(costs_.workload(), resolved));
  return Trace{Lower(costs_.problem().With(resolved)), costs_.Trace(resolved)};
}

absl::StatusOr<PlanPrediction> PredictPlan(const PlannedRun& run) {
  AUTOCFG_ASSIGN_OR_RETURN(auto predictor, Predictor::Create(run));
  return predictor.Predict(run.plan);
}

absl::StatusOr<Predictor*> PredictorCache::Find(const Problem& problem, double memory_margin) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](Entry& entry) {
    const CostModel& costs = entry.predictor.costs();
    return costs.memory_margin() == memory_margin && costs.problem() == problem;
  });
  if (found != entries_.end() && found->uses < kMostUses) {
    ++found->uses;
    entries_.splice(entries_.begin(), entries_, found);
    return &entries_.front().predictor;
  }
  AUTOCFG_ASSIGN_OR_RETURN(auto made, Predictor::Create(problem, memory_margin));
  if (found != entries_.end()) entries_.erase(found);
  entries_.push_front({std::move(made), 1});
  if (entries_.size() > kMostPredictors) entries_.pop_back();
  return &entries_.front().predictor;
}

}  // namespace autocfg
