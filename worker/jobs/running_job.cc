#include "worker/jobs/running_job.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/os/log_fields.h"
#include "base/os/trace_parent.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/log_fields.h"
#include "proto/short_name.h"
#include "spdlog/spdlog.h"
#include "worker/jobs/progress_sender.h"
#include "worker/jobs/timed_ops.h"

namespace autocfg::worker {
namespace {

// Returns "ranks 2 to 3 of 4", or "4 ranks".
std::string RanksText(const v1::LeaseWorkResponse& lease) {
  const int ranks = lease.job().ranks();
  if (!lease.has_share()) return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
  const int first = lease.share().first_rank();
  return fmt::format("ranks {} to {} of {}", first, first + lease.share().ranks() - 1, ranks);
}

// Returns "MEASURED", or "FAILED: rank 1: ...".
std::string EndText(const JobReport& report) {
  const std::string text = ShortName(report.outcome);
  return report.message.empty() ? text : fmt::format("{}: {}", text, report.message);
}

constexpr double kFirstReportPauseSeconds = 0.1;
constexpr double kLongestReportPauseSeconds = 2;

// Builds the report message. request_id depends only on the lease, so repeated reports are idempotent.
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
  if (report.timeline) *request.mutable_timeline() = *report.timeline;
  if (report.calibration) *request.mutable_calibration() = *report.calibration;
  return request;
}

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
      spdlog::warn("{}: the report of {} is not stored yet; retrying ({})", calls.worker(), job,
                   std::string(status.message()));
    if (stopping.WaitUntilCancelled(pause_s)) return status;
  }
}

// Sends the log once, then repeats the report until it is accepted or rejected, or until `give_up` returns
// true after a failed attempt. `stopping` ends pauses early. Logs what could not be sent. If the coordinator
// rejects the report as invalid, sends one that this worker failed at the job, so that another may try it.
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
    spdlog::warn("{}: the report of {} was rejected; reporting a failure instead: {}", calls.worker(), job,
                 std::string(status.message()));
    JobReport failure;
    failure.failure = v1::FAILURE_KIND_PROCESS;
    failure.message =
        base::CleanUtf8(fmt::format("the coordinator rejected the result: {}", std::string(status.message())),
                        kMaxMessageBytes);
    request = ReportOf(calls.worker(), session, lease, failure);
    request.set_request_id(lease.lease_id() + "/rejected");
    status = SendUntilAnswered(calls, job, request, stopping, give_up);
  }
  if (status.ok()) {
    // The name in the API: operators and tests search for it.
    spdlog::info("{}, attempt {}: reported {}", job, request.attempt(), v1::Outcome_Name(request.outcome()));
  } else {
    spdlog::warn("{}: the report of {} {}: {}", calls.worker(), job,
                 MayPass(status) ? "was not delivered" : "was rejected", std::string(status.message()));
  }
}

}  // namespace

RunningJob::RunningJob(const JobSetting& setting, const Registration& session, v1::LeaseWorkResponse lease)
    : setting_(setting),
      session_(session),
      lease_(std::move(lease)),
      keeper_(LeaseKeeper::Clock::now(), session.lease_s,
              {.renew =
                   [this](double wait_s, double limit_s) {
                     return setting_.calls.RenewLease(session_, lease_, wait_s, limit_s, renewals_);
                   },
               .cancel = [this] { renewals_.Cancel(); },
               .drain = setting.drain},
              &stop_),
      thread_([this] { Run(); }) {}

RunningJob::~RunningJob() { Wait(); }

void RunningJob::Wait() {
  if (thread_.joinable()) thread_.join();
}

void RunningJob::Run() {
  const base::LogScope scope(FieldsOfLease(lease_, setting_.calls.worker()));
  const std::string what = fmt::format("{}, attempt {}", lease_.job().name(), lease_.job().attempt());
  const std::vector<int> slots = setting_.slots.Take(SlotsToTake(lease_, setting_.inventory), stop_);
  const std::string trace = base::TraceOf(lease_.job().trace_parent());
  spdlog::info("{}: starts with {}{}", what, RanksText(lease_), trace.empty() ? "" : ", trace " + trace);
  LaunchHooks hooks;
  hooks.cancel = &stop_;
  if (lease_.has_share()) hooks.exchange = ExchangeWithOthers();
  CallGroup progress_calls;
  std::optional<ProgressSender> sender;
  if (lease_.job().has_calibrate()) {
    sender.emplace(
        [&](const v1::Progress& progress, const v1::CalibrateResult& timed) {
          const absl::Status status = setting_.calls.ReportProgress(lease_, progress, timed, progress_calls);
          return status.ok() || !MayPass(status);
        },
        [&] { progress_calls.Cancel(); });
    // What the ranks of several workers have timed is merged at the end only.
    TimedOps timed(lease_.has_share() ? 0 : SlotsToUse(lease_.job(), setting_.inventory, slots).size());
    hooks.progress = [&sender, timed](int rank, const v1::Progress& progress) mutable {
      sender->Add(timed.Add(static_cast<std::size_t>(rank), progress));
      if (rank == 0) sender->Set(progress);
    };
  }
  JobReport report;
  report.outcome = v1::OUTCOME_CANCELLED;
  const auto start = LeaseKeeper::Clock::now();
  if (!stop_) {
    report = RunJob(lease_, setting_.inventory, setting_.files, setting_.cores, slots, setting_.launcher,
                    hooks, kGpuPatience, &setting_.engines);
  }
  sender.reset();
  setting_.slots.Give(slots);
  const double seconds = std::chrono::duration<double>(LeaseKeeper::Clock::now() - start).count();
  spdlog::info("{}: ended after {:.1f} s, {}", what, seconds, EndText(report));
  // A job cut short by this worker's own stop is not reported: deregistering returns it to the queue.
  const bool cut_short = report.outcome == v1::OUTCOME_CANCELLED && !keeper_.cancelled();
  if (keeper_.lost()) {
    spdlog::warn("{}: its lease is lost; it is not reported", what);
  } else if (!cut_short) {
    SendReport(setting_.calls, session_, lease_, report, setting_.stopping,
               [this] { return keeper_.lost(); });
  }
  over_ = true;
  keeper_.End();
}

ExchangeHook RunningJob::ExchangeWithOthers() {
  return {.run =
              [this](const std::string& name, std::int64_t sequence, const std::vector<std::string>& values) {
                return setting_.calls.Rendezvous(lease_, name, sequence, values, exchanges_);
              },
          .cancel = [this] { exchanges_.Cancel(); }};
}

}  // namespace autocfg::worker
