#include "search/training_time/training_estimate.h"

#include <algorithm>
#include <cmath>

#include "search/ops/dtype.h"
#include "search/training_time/checkpoint_interval.h"

namespace autocfg {
namespace {

constexpr double kHour = 3600, kDay = 86400, kBillion = 1e9;

double NodeCount(const ClusterSpec& cluster) {
  double nodes = 0;
  for (const NodeGroup& group : cluster.groups) nodes += static_cast<double>(group.nodes);
  return nodes;
}

// `seconds`: of the whole run without failures; empty: not known.
FailureEstimate EstimateFailures(const TrainingTerms& terms, double nodes, double checkpoint_bytes,
                                 std::optional<double> seconds) {
  FailureTimes times;
  times.mtbf_s = JobMtbfSeconds(*terms.node_mtbf_s, nodes);
  times.checkpoint_s = terms.checkpoint_s.value_or(checkpoint_bytes / (nodes * kStorageBytesPerNodeSecond));
  times.restart_s = terms.restart_s;
  FailureEstimate estimate{
      .job_mtbf_s = times.mtbf_s, .checkpoint_s = times.checkpoint_s, .restart_s = times.restart_s};
  estimate.progresses = Progresses(times);
  if (!estimate.progresses) return estimate;
  estimate.checkpoint_interval_s = BestCheckpointInterval(times);
  // A run shorter than the interval writes one checkpoint, at its end.
  if (seconds) estimate.checkpoint_interval_s = std::min(estimate.checkpoint_interval_s, *seconds);
  estimate.slowdown = ExpectedSlowdown(times, estimate.checkpoint_interval_s);
  estimate.progresses = std::isfinite(estimate.slowdown);
  return estimate;
}

}  // namespace

double CheckpointBytes(const ModelSpec& model, const Workload& workload) {
  return static_cast<double>(ParameterCount(model)) *
         (static_cast<double>(SizeOf(workload.precision.parameters)) + StateBytes(workload));
}

TrainingEstimate EstimateTraining(const TrainingTerms& terms, const Problem& problem, double step_time_s) {
  const Workload& workload = problem.workload;
  const double step_tokens =
      static_cast<double>(workload.global_batch) * static_cast<double>(workload.seq_len);
  const auto gpus = static_cast<double>(RankCount(problem.cluster));
  const auto hours_of = [&](double seconds) { return seconds / kHour * gpus; };
  TrainingEstimate estimate{.step_time_s = step_time_s, .tokens = terms.tokens};
  std::optional<double> seconds;
  if (terms.tokens) {
    seconds = *terms.tokens / step_tokens * step_time_s;
    estimate.steps = static_cast<std::int64_t>(std::ceil(*terms.tokens / step_tokens));
    estimate.days = *seconds / kDay;
    estimate.gpu_hours = hours_of(*seconds);
  }
  estimate.price_per_gpu_hour = terms.price_per_gpu_hour;
  if (terms.price_per_gpu_hour) {
    if (seconds) estimate.cost = *estimate.gpu_hours * *terms.price_per_gpu_hour;
    estimate.cost_per_billion_tokens =
        hours_of(kBillion / step_tokens * step_time_s) * *terms.price_per_gpu_hour;
  }
  if (!terms.node_mtbf_s) return estimate;
  FailureEstimate& failures = estimate.failures.emplace(
      EstimateFailures(terms, NodeCount(problem.cluster), CheckpointBytes(problem.model, workload), seconds));
  if (!failures.progresses || !seconds) return estimate;
  failures.days = *estimate.days * failures.slowdown;
  failures.gpu_hours = *estimate.gpu_hours * failures.slowdown;
  if (estimate.cost) failures.cost = *estimate.cost * failures.slowdown;
  return estimate;
}

}  // namespace autocfg
