#include "worker/job_report.h"

#include <algorithm>
#include <string>

#include "spdlog/spdlog.h"

namespace autocfg {
namespace {

constexpr double kFirstPauseSeconds = 0.1;
constexpr double kLongestPauseSeconds = 2;

}  // namespace

v1::ReportTrialRequest ReportOf(const std::string& worker, const Registration& session,
                                const v1::LeaseWorkResponse& lease, const JobReport& report) {
  v1::ReportTrialRequest request;
  request.set_worker(worker);
  request.set_session_epoch(session.epoch);
  request.set_lease_id(lease.lease_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_attempt(lease.job().attempt());
  request.set_request_id(lease.lease_id() + "/report");
  request.set_outcome(report.outcome);
  request.set_message(report.message);
  request.set_failure(report.failure);
  if (report.measurement) *request.mutable_measurement() = *report.measurement;
  if (report.calibration) *request.mutable_calibration() = *report.calibration;
  return request;
}

bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:  // by a coordinator that ends
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

void SendReport(const WorkerCalls& calls, const Registration& session, const v1::LeaseWorkResponse& lease,
                const JobReport& report, CallGroup& stopping, const std::function<bool()>& give_up) {
  CallGroup own;  // a report under way is not cut short
  const std::string& job = lease.job().name();
  if (!report.log.empty()) {
    if (const absl::Status status = calls.AppendTrialLog(lease, report.log, own); !status.ok())
      spdlog::warn("{}: the log of {} did not get through: {}", calls.worker(), job,
                   std::string(status.message()));
  }
  const v1::ReportTrialRequest request = ReportOf(calls.worker(), session, lease, report);
  for (double pause_s = kFirstPauseSeconds;; pause_s = std::min(kLongestPauseSeconds, pause_s * 2)) {
    const absl::Status status = calls.ReportTrial(request, own);
    if (status.ok()) {
      spdlog::info("{}, attempt {}: reported {}", job, request.attempt(), v1::Outcome_Name(request.outcome()));
      return;
    }
    if (!MayPass(status)) {
      spdlog::warn("{}: the report of {} was refused: {}", calls.worker(), job,
                   std::string(status.message()));
      return;
    }
    if (give_up() || stopping.WaitUntilCancelled(pause_s)) {
      spdlog::warn("{}: the report of {} did not get through: {}", calls.worker(), job,
                   std::string(status.message()));
      return;
    }
  }
}

}  // namespace autocfg
