#include "server/studies/trial_job.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "proto/convert/spec_convert.h"
#include "proto/convert/trainer_convert.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/plan_op_times.h"
#include "search/plan/model_stages.h"
#include "search/schedule/program.h"

namespace autocfg::server {
namespace {

constexpr double kCalibrationSeconds = 10;  // of repetitions
constexpr double kCalibrationShare = 0.2;   // of the time budget, for repetitions
// Of the time budget: afterwards only the ops are timed that the others are estimated from.
constexpr double kCalibrationLimitShare = 0.25;
// Ends a calibration that goes on and never ends; not an estimate.
constexpr double kCalibrationBackstopSeconds = 24 * 3600;
// An op that takes longer than this hangs.
constexpr double kStallSeconds = 600;
constexpr double kFirstSeconds = 0.33;  // of measuring, in a plan's first trial
constexpr double kRepeatSeconds = 1;    // in its repeats
constexpr double kShortStepSeconds = 0.1;
constexpr double kLeastLimitSeconds = 30;
constexpr double kLimitFactor = 20;
constexpr double kStartSeconds = 20;  // starting processes, initializing weights, rendezvous
// The same on GPUs, which open contexts, load libraries, compile kernels, time matrix-product algorithms and
// create communicators; the host initializes weights of models as large as a GPU's memory. A limit for
// hanging jobs, not an estimate: nothing waits for it.
constexpr double kGpuStartSeconds = 180;
// The same of another engine: it starts an interpreter, imports its libraries and may compile its kernels.
// Its worker knows it better and may have shorter limits (worker/engines/engine_file.h).
constexpr double kEngineStartSeconds = 1800;
constexpr std::uint64_t kSeed = 1;

// An emulated step takes the time of its control messages, far less than this per microbatch and rank.
constexpr double kPacedLimitPerMicrobatch = 5e-3;
constexpr std::int64_t kRecordedSteps = 1;  // untimed, for the breakdown
constexpr std::int64_t kPacedSteps = 2;     // all steps take the same time

// Returns the number of ranks that one machine runs at once.
std::int64_t RanksHere(const SearchProblem& problem) {
  const std::int64_t machine = MeasurableRanks(problem);
  const std::int64_t all = RankCount(problem.cluster);
  return machine > 0 ? std::min(machine, all) : all;
}

bool IsOwnEngine(const SearchProblem& problem) { return problem.cluster.engine.name == kOwnEngine; }

double StartSeconds(const SearchProblem& problem) {
  if (!IsOwnEngine(problem)) return kEngineStartSeconds;
  return UsesGpus(problem.device) ? kGpuStartSeconds : kStartSeconds;
}

// Returns true if plans exceed one machine, so that their ranks run alone.
bool InSlices(const SearchProblem& problem) {
  const std::int64_t machine = MeasurableRanks(problem);
  return machine > 0 && RankCount(problem.cluster) > machine;
}

}  // namespace

v1::Job CalibrationJob(const SearchProblem& problem, const std::vector<OpDesc>& ops) {
  v1::Job job;
  job.set_ranks(static_cast<std::int32_t>(RanksHere(problem)));
  job.set_fewer_ranks(InSlices(problem));
  job.set_device(std::string(Name(problem.device)));
  v1::CalibrateSpec& spec = *job.mutable_calibrate();
  for (const OpDesc& op : ops) {
    if (op.group_size <= job.ranks()) *spec.add_ops() = ToProto(op);
  }
  double budget = kCalibrationSeconds;
  if (problem.time_budget_s > 0) budget = std::min(budget, kCalibrationShare * problem.time_budget_s);
  spec.set_time_budget_s(budget);
  spec.set_limit_s(kCalibrationLimitShare * problem.time_budget_s);
  job.set_time_limit_s(kCalibrationBackstopSeconds);
  job.set_stall_limit_s(kStallSeconds);
  return job;
}

StepCounts StepsFor(const TrialRequest& request) {
  StepCounts steps;
  const double predicted_step_s = request.predicted.step_time_s;
  const double seconds = request.repeat == 0 ? kFirstSeconds : kRepeatSeconds;
  const double wanted = predicted_step_s > 0 ? std::ceil(seconds / predicted_step_s) : 3;
  steps.timed = static_cast<std::int64_t>(std::clamp(wanted, 3.0, 20.0));
  steps.untimed = kRecordedSteps + (predicted_step_s < kShortStepSeconds ? 2 : 1);
  return steps;
}

absl::StatusOr<v1::Job> TrialJob(const SearchProblem& problem, const TrialRequest& request) {
  const ParallelPlan& plan = request.plan;
  const double predicted_step_s = request.predicted.step_time_s;
  v1::Job job;
  job.set_ranks(static_cast<std::int32_t>(request.slice ? RanksHere(problem) : RankCount(plan)));
  job.set_fewer_ranks(request.slice.has_value());
  job.set_device(std::string(Name(problem.device)));
  v1::TrainSpec& spec = *job.mutable_train();
  spec = MakeTrainSpec(problem.With(plan));
  const bool paced = EvidenceOf(problem) == Evidence::kPaced;
  const StepCounts steps =
      paced ? StepCounts{.untimed = kRecordedSteps, .timed = kPacedSteps} : StepsFor(request);
  spec.set_steps(steps.untimed + steps.timed);
  spec.set_warmup_steps_untimed(steps.untimed);
  const bool own = IsOwnEngine(problem);
  if (!own) job.set_engine(problem.cluster.engine.name);
  spec.set_record_breakdown(own && !request.slice.has_value());
  spec.set_seed(kSeed);
  spec.set_memory_capacity_bytes(MemoryCapacity(problem.cluster));
  if (request.slice) {
    spec.mutable_slice()->set_tensor(request.slice->tensor);
    spec.mutable_slice()->set_pipeline(request.slice->pipeline);
  }
  const auto step_count = static_cast<double>(spec.steps());
  double expected_s = kLimitFactor * predicted_step_s * step_count;
  if (paced) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto times,
                             ClusterOpTimes::Create(problem.cluster, problem.workload.precision));
    for (const OpTime& time : PlanOpTimes(problem.With(plan), *times)) {
      *spec.add_op_times() = ToProto(time);
    }
    spec.set_host_op_s(times->HostOpSeconds());
    const std::int64_t microbatches =
        MicrobatchCount(problem.workload, plan) * plan.virtual_stages * RankCount(plan);
    expected_s = kPacedLimitPerMicrobatch * static_cast<double>(microbatches) * step_count;
  }
  job.set_time_limit_s(std::max(kLeastLimitSeconds, StartSeconds(problem) + expected_s));
  return job;
}

}  // namespace autocfg::server
