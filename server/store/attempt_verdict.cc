#include "server/store/attempt_verdict.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::server {
namespace {

// The log of another engine may tell of fewer steps. Of a job that spans workers it may be the log of one
// worker that tells of any; MergeMeasurements looks for it.
absl::Status CheckEngineMeasurement(const v1::Job& job, const v1::Measurement& measurement) {
  if (measurement.engine() != job.engine()) {
    return absl::InvalidArgumentError(fmt::format("measurement.engine is '{}', but the job asks for '{}'",
                                                  base::Printable(measurement.engine()),
                                                  base::Printable(job.engine())));
  }
  const std::int64_t timed = job.train().steps() - job.train().warmup_steps_untimed();
  if (measurement.step_time_s_size() > timed || measurement.slice()) {
    return absl::InvalidArgumentError(
        fmt::format("measurement has {} step times{}, but the job times {} steps of the whole plan",
                    measurement.step_time_s_size(), measurement.slice() ? " of a slice" : "", timed));
  }
  return absl::OkStatus();
}

absl::Status CheckMeasurement(const v1::TrainSpec& asked, const v1::Measurement& measurement) {
  if (!measurement.engine().empty())
    return absl::InvalidArgumentError("measurement.engine is set, but the job is of the built-in engine");
  if (measurement.step_time_s().empty())
    return absl::InvalidArgumentError("measurement.step_time_s is empty, but the job is a trial");
  if (measurement.slice() != asked.has_slice()) {
    return absl::InvalidArgumentError(
        fmt::format("measurement.slice is {}, but the job runs {}", measurement.slice(),
                    asked.has_slice() ? "one rank of the plan alone" : "all ranks of the plan"));
  }
  // The trainer reports a time for each step after the untimed ones.
  const std::int64_t timed = asked.steps() - asked.warmup_steps_untimed();
  if (measurement.step_time_s_size() != timed) {
    return absl::InvalidArgumentError(
        fmt::format("measurement.step_time_s has {} times, but the job times {} steps",
                    measurement.step_time_s_size(), timed));
  }
  return absl::OkStatus();
}

// Requires rows that CheckTimeline accepts.
absl::Status CheckTimelineFits(const v1::TrainSpec& asked, const v1::StepTimeline& timeline) {
  if (!asked.record_breakdown())
    return absl::InvalidArgumentError("timeline is set, but the job records no step");
  const std::int64_t pipeline = std::max<std::int64_t>(1, asked.plan().pp());
  const std::int64_t stages = pipeline * std::max<std::int64_t>(1, asked.plan().virtual_stages());
  for (const v1::TimelineRow& row : timeline.rows()) {
    if (row.pipeline() < pipeline && row.stage() < stages) continue;
    return absl::InvalidArgumentError(
        fmt::format("timeline.rows: rank {} and stage {} are not among the plan's {} and {}", row.pipeline(),
                    row.stage(), pipeline, stages));
  }
  return absl::OkStatus();
}

absl::Status NotAskedFor(const v1::OpDesc& op) {
  return absl::InvalidArgumentError(
      fmt::format("calibration.ops: {} is a duplicate, or the job does not ask for it",
                  base::Printable(op.ShortDebugString())));
}

// A worker that runs fewer ranks than asked for leaves out the ops of larger groups. One with a limit leaves
// out ops for which it had no time.
absl::Status CheckCalibration(const v1::CalibrateSpec& asked, bool fewer_ranks,
                              const v1::CalibrateResult& result) {
  std::set<std::string> missing;
  std::set<std::string> of_groups;
  for (const v1::OpDesc& op : asked.ops())
    (fewer_ranks && op.group_size() > 1 ? of_groups : missing).insert(op.SerializeAsString());
  const std::size_t wanted = missing.size();
  for (const v1::OpTime& time : result.ops()) {
    const std::string op = time.op().SerializeAsString();
    if (missing.erase(op) == 0 && of_groups.erase(op) == 0) return NotAskedFor(time.op());
  }
  if (asked.limit_s() > 0 && !result.ops().empty()) return absl::OkStatus();
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("calibration.ops lacks {} of the {} ops that the job asks for", missing.size(), wanted));
  }
  return absl::OkStatus();
}

ShareEnd EndOfFailure(v1::FailureKind failure) {
  switch (failure) {
    case v1::FAILURE_KIND_PROCESS: return ShareEnd::kFailedByProcess;
    case v1::FAILURE_KIND_PEER: return ShareEnd::kFailedByPeer;
    case v1::FAILURE_KIND_UNSPECIFIED:
    case v1::FAILURE_KIND_OWN:
    case v1::FailureKind_INT_MIN_SENTINEL_DO_NOT_USE_:
    case v1::FailureKind_INT_MAX_SENTINEL_DO_NOT_USE_: break;
  }
  return ShareEnd::kFailed;
}

}  // namespace

absl::Status CheckFits(const v1::Job& asked, const v1::ReportTrialRequest& report) {
  if (asked.has_calibrate()) {
    if (!report.has_calibration())
      return absl::InvalidArgumentError("calibration is missing, but the job is a calibration");
    return CheckCalibration(asked.calibrate(), asked.fewer_ranks(), report.calibration());
  }
  if (!report.has_measurement())
    return absl::InvalidArgumentError("measurement is missing, but the job is a trial");
  absl::Status status = asked.engine().empty() ? CheckMeasurement(asked.train(), report.measurement())
                                               : CheckEngineMeasurement(asked, report.measurement());
  if (status.ok() && report.has_timeline()) return CheckTimelineFits(asked.train(), report.timeline());
  return status;
}

absl::Status CheckAskedFor(const v1::Job& asked, const v1::CalibrateResult& timed) {
  std::set<std::string> ops;
  for (const v1::OpDesc& op : asked.calibrate().ops()) ops.insert(op.SerializeAsString());
  for (const v1::OpTime& time : timed.ops()) {
    if (ops.erase(time.op().SerializeAsString()) == 0) return NotAskedFor(time.op());
  }
  return absl::OkStatus();
}

ShareEnd EndOf(v1::Outcome outcome, v1::FailureKind failure, bool stopping) {
  switch (outcome) {
    case v1::OUTCOME_MEASURED: return ShareEnd::kMeasured;
    case v1::OUTCOME_OUT_OF_MEMORY: return ShareEnd::kOutOfMemory;
    case v1::OUTCOME_FAILED: return EndOfFailure(failure);
    case v1::OUTCOME_TIMED_OUT: return ShareEnd::kTimedOut;
    case v1::OUTCOME_CANCELLED: return stopping ? ShareEnd::kStopped : ShareEnd::kCancelled;
    case v1::OUTCOME_REFUSED: return ShareEnd::kRefused;
    case v1::OUTCOME_UNSPECIFIED:
    case v1::Outcome_INT_MIN_SENTINEL_DO_NOT_USE_:
    case v1::Outcome_INT_MAX_SENTINEL_DO_NOT_USE_: break;
  }
  return ShareEnd::kRuns;
}

v1::TrialState StateOf(ShareEnd end) {
  switch (end) {
    case ShareEnd::kRuns: return v1::TRIAL_STATE_RUNNING;
    case ShareEnd::kMeasured: return v1::TRIAL_STATE_MEASURED;
    case ShareEnd::kOutOfMemory: return v1::TRIAL_STATE_INFEASIBLE;
    case ShareEnd::kFailed:
    case ShareEnd::kFailedByProcess:
    case ShareEnd::kFailedByPeer: return v1::TRIAL_STATE_FAILED;
    case ShareEnd::kTimedOut: return v1::TRIAL_STATE_TIMED_OUT;
    case ShareEnd::kRefused:
    case ShareEnd::kLost:
    case ShareEnd::kWithdrawn: return v1::TRIAL_STATE_LOST;
    case ShareEnd::kCancelled:
    case ShareEnd::kStopped: return v1::TRIAL_STATE_CANCELLED;
  }
  return v1::TRIAL_STATE_UNSPECIFIED;
}

v1::TrialState LastStateOf(ShareEnd end) {
  return end == ShareEnd::kCancelled ? v1::TRIAL_STATE_LOST : StateOf(end);
}

bool Breaks(ShareEnd end) { return end != ShareEnd::kRuns && end != ShareEnd::kMeasured; }

AttemptVerdict VerdictOf(std::span<const ShareEnd> ends) {
  const auto place = [](ShareEnd end) { return std::find(kPrecedence.begin(), kPrecedence.end(), end); };
  const auto decisive = std::min_element(
      ends.begin(), ends.end(), [&](ShareEnd one, ShareEnd other) { return place(one) < place(other); });
  AttemptVerdict verdict;
  verdict.decisive = static_cast<std::size_t>(decisive - ends.begin());
  verdict.end = *decisive;
  switch (verdict.end) {
    case ShareEnd::kFailedByProcess:
    case ShareEnd::kFailedByPeer:
    case ShareEnd::kRefused:
    case ShareEnd::kLost:
    case ShareEnd::kCancelled:
      verdict.again = true;
      verdict.costs = true;
      break;
    case ShareEnd::kWithdrawn:
    case ShareEnd::kStopped: verdict.again = true; break;
    case ShareEnd::kRuns:
    case ShareEnd::kOutOfMemory:
    case ShareEnd::kFailed:
    case ShareEnd::kTimedOut:
    case ShareEnd::kMeasured: break;
  }
  return verdict;
}

}  // namespace autocfg::server
