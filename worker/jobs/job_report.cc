#include "worker/jobs/job_report.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace autocfg::worker {
namespace {

constexpr double kFirstReportPauseSeconds = 0.1;
constexpr double kLongestReportPauseSeconds = 2;

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

namespace {

// Repeats the call until it is answered or a condition of SendReport ends it.
absl::Status SendUntilAnswered(const WorkerCalls& calls, const std::string& job,
                               const v1::ReportTrialRequest& request, CallGroup& stopping,
                               const std::function<bool()>& give_up) {
  CallGroup own;  // not cancelled by `stopping`: an in-flight report may finish
  bool said = false;
  for (double pause_s = kFirstReportPauseSeconds;;
       pause_s = std::min(kLongestReportPauseSeconds, pause_s * 2)) {
    absl::Status status = calls.ReportTrial(request, own);
    if (status.ok() || !MayPass(status) || give_up()) return status;
    if (!std::exchange(said, true))
      spdlog::warn("{}: the report of {} is not stored yet; retrying while its lease lasts ({})",
                   calls.worker(), job, std::string(status.message()));
    if (stopping.WaitUntilCancelled(pause_s)) return status;
  }
}

}  // namespace

void SendReport(const WorkerCalls& calls, const Registration& session, const v1::LeaseWorkResponse& lease,
                const JobReport& report, CallGroup& stopping, const std::function<bool()>& give_up) {
  const std::string& job = lease.job().name();
  if (!report.log.empty()) {
    CallGroup own;
    if (const absl::Status status = calls.AppendTrialLog(lease, report.log, own); !status.ok())
      spdlog::warn("{}: the log of {} was not delivered: {}", calls.worker(), job,
                   std::string(status.message()));
  }
  v1::ReportTrialRequest request = ReportOf(calls.worker(), session, lease, report);
  absl::Status status = SendUntilAnswered(calls, job, request, stopping, give_up);
  if (absl::IsInvalidArgument(status)) {
    spdlog::warn("{}: the report of {} was refused; reporting a failure instead: {}", calls.worker(), job,
                 std::string(status.message()));
    JobReport failure;
    failure.failure = v1::FAILURE_KIND_PROCESS;
    failure.message =
        base::CleanUtf8(fmt::format("the coordinator refused the result: {}", std::string(status.message())),
                        kMaxMessageBytes);
    request = ReportOf(calls.worker(), session, lease, failure);
    request.set_request_id(lease.lease_id() + "/refused");
    status = SendUntilAnswered(calls, job, request, stopping, give_up);
  }
  if (status.ok()) {
    spdlog::info("{}, attempt {}: reported {}", job, request.attempt(), v1::Outcome_Name(request.outcome()));
  } else {
    spdlog::warn("{}: the report of {} {}: {}", calls.worker(), job,
                 MayPass(status) ? "was not delivered" : "was refused", std::string(status.message()));
  }
}

}  // namespace autocfg::worker
