// Reports and logs.
#include <cstdint>
#include <utility>

#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/store/attempt_verdict.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr const char* kReport = "report";
constexpr std::int64_t kMaxLogBytesPerAttempt = 1 << 20;

// Returns the request subject of a report: the lease and a digest of its content.
std::string SubjectOf(const v1::ReportTrialRequest& report) {
  v1::ReportTrialRequest content = report;
  content.clear_lease_id();
  content.clear_request_id();
  // Deterministic, because the messages contain no maps.
  return fmt::format("{}/{:016x}", report.lease_id(), base::Fnv1a(content.SerializeAsString()));
}

// Returns the memory of a rank outside its arena; 0 if the report does not say.
std::int64_t DeviceOverheadBytes(const v1::ReportTrialRequest& report) {
  return report.has_calibration() ? report.calibration().device_overhead_bytes()
                                  : report.measurement().device_overhead_bytes();
}

// Version 2 and earlier stored only the lease.
bool IsOf(const std::string& subject, const v1::ReportTrialRequest& report) {
  return subject == report.lease_id() || subject == SubjectOf(report);
}

}  // namespace

std::string Store::Impl::RejectionOf(const v1::ReportTrialRequest& report) {
  if (RequestIdTaken(report.request_id()))
    return fmt::format("request_id {} was used for another request, or with different content",
                       report.request_id());
  const auto row = Find<std::string, std::int64_t, std::int64_t, std::int64_t, ShareEnd>(
      "SELECT worker, epoch, fencing_token, attempt, ending FROM shares WHERE lease_id = ?",
      report.lease_id());
  if (!row) return fmt::format("unknown lease {}", report.lease_id());
  const auto& [worker, epoch, fencing_token, attempt, end] = *row;
  if (worker != report.worker()) return fmt::format("lease {} belongs to another worker", report.lease_id());
  if (epoch != report.session_epoch())
    return fmt::format("lease {} is of session {}, not {}", report.lease_id(), epoch, report.session_epoch());
  if (fencing_token != report.fencing_token()) {
    return fmt::format("lease {} has a fencing token other than {}", report.lease_id(),
                       report.fencing_token());
  }
  if (attempt != report.attempt())
    return fmt::format("lease {} is for attempt {}, not {}", report.lease_id(), attempt, report.attempt());
  if (end != ShareEnd::kRuns) {
    return fmt::format("attempt {} of lease {} has ended ({})", report.attempt(), report.lease_id(),
                       ShortName(StateOf(end)));
  }
  return "";
}

absl::Status Store::Impl::RecordReport(const v1::ReportTrialRequest& report, double now_s) {
  auto [job, asked, held_s, stopping] =  // held_s: rank-seconds
      One<std::int64_t, v1::Job, double, bool>(
          R"sql(
            SELECT j.id, j.job, s.ranks * MAX(0, ? - a.start_s), a.stopping
            FROM shares s
            JOIN jobs j ON j.id = s.job
            JOIN attempts a ON a.job = s.job AND a.number = s.attempt
            WHERE s.lease_id = ?)sql",
          now_s, report.lease_id());
  const ShareEnd end = EndOf(report.outcome(), report.failure(), stopping);
  if (end == ShareEnd::kRuns) return absl::InvalidArgumentError("outcome is missing or unknown");
  if (end == ShareEnd::kMeasured) {
    AUTOCFG_RETURN_IF_ERROR(CheckFits(asked, report));
  }
  // A report without device time counts its ranks from the lease to the end.
  if (report.measurement().device_s() > 0) held_s = report.measurement().device_s();
  Execute(
      R"sql(
        UPDATE shares
        SET ending = ?, end_s = ?, message = ?, device_s = ?, device_overhead_bytes = ?
        WHERE lease_id = ?)sql",
      end, now_s, report.message(), held_s, DeviceOverheadBytes(report), report.lease_id());
  const auto keep = [&](const char* sql, const google::protobuf::MessageLite& message) {
    Execute(sql, message, report.lease_id());
  };
  if (report.has_out_of_memory())
    keep("UPDATE shares SET out_of_memory = ? WHERE lease_id = ?", report.out_of_memory());
  // The results of the last share go where they belong at once. A timeline may have a megabyte.
  const bool last =
      !Find<int>("SELECT 1 FROM shares WHERE job = ? AND attempt = ? AND ending = 0", job, report.attempt());
  if (!last) {
    if (report.has_measurement())
      keep("UPDATE shares SET measurement = ? WHERE lease_id = ?", report.measurement());
    if (report.has_timeline() && end == ShareEnd::kMeasured)
      keep("UPDATE shares SET timeline = ? WHERE lease_id = ?", report.timeline());
    if (report.has_calibration())
      keep("UPDATE shares SET calibration = ? WHERE lease_id = ?", report.calibration());
  }
  RememberRequest(report.request_id(), kReport, SubjectOf(report));
  LeasesEnded(LeaseEnd::kReported, 1);
  SettleAttempt(job, report.attempt(), now_s, last ? &report : nullptr);
  return absl::OkStatus();
}

absl::Status Store::Report(const v1::ReportTrialRequest& report, double now_s) {
  // A rejection is itself stored, so it is a result of the transaction and not an error.
  AUTOCFG_ASSIGN_OR_RETURN(const std::string rejection, impl_->Write([&]() -> absl::StatusOr<std::string> {
    const auto known = impl_->FindRequest(report.request_id(), kReport);
    if (known && IsOf(*known, report)) return "";
    std::string reason = impl_->RejectionOf(report);
    if (reason.empty()) {
      AUTOCFG_RETURN_IF_ERROR(impl_->RecordReport(report, now_s));
      return reason;
    }
    impl_->Execute(
        R"sql(
              INSERT INTO refused_reports
                (received_s, worker, epoch, lease_id, fencing_token, attempt, request_id, outcome, reason)
              VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?))sql",
        now_s, report.worker(), report.session_epoch(), report.lease_id(), report.fencing_token(),
        report.attempt(), report.request_id(), report.outcome(), reason);
    ++impl_->commit_.reports_rejected;
    // The table of rejected reports kept its first name.
    impl_->Execute("DELETE FROM refused_reports WHERE id <= last_insert_rowid() - ?",
                   impl_->kept_rejections_);
    return reason;
  }));
  if (!rejection.empty()) return absl::FailedPreconditionError("the report is rejected: " + rejection);
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> Store::RejectedReports() {
  return impl_->Read([&] { return impl_->One<std::int64_t>("SELECT count(*) FROM refused_reports"); });
}

absl::Status Store::AppendLog(const std::string& lease_id, std::int64_t fencing_token,
                              const std::string& text) {
  return impl_->Write([&]() -> absl::Status {
    const auto row = impl_->Find<std::int64_t, std::int64_t>(
        "SELECT job, attempt FROM shares WHERE lease_id = ? AND fencing_token = ? AND ending = 0", lease_id,
        fencing_token);
    if (!row) {
      return absl::FailedPreconditionError(
          fmt::format("lease {} is not held any more; its log is rejected", lease_id));
    }
    const auto [job, attempt] = *row;
    const auto kept = impl_->One<std::int64_t>(
        R"sql(
          SELECT IFNULL(SUM(length(CAST(text AS BLOB))), 0)
          FROM trial_logs
          WHERE job = ? AND attempt = ?)sql",
        job, attempt);
    if (kept + static_cast<std::int64_t>(text.size()) > kMaxLogBytesPerAttempt) {
      return absl::ResourceExhaustedError(
          fmt::format("the log of lease {} is full: {} bytes are kept", lease_id, kMaxLogBytesPerAttempt));
    }
    impl_->Execute("INSERT INTO trial_logs (job, attempt, text) VALUES (?, ?, ?)", job, attempt, text);
    return absl::OkStatus();
  });
}

absl::StatusOr<v1::TrialLog> Store::TrialLog(std::int64_t study, std::int64_t number, std::int64_t attempt,
                                             std::size_t most_bytes) {
  return impl_->Read([&]() -> absl::StatusOr<v1::TrialLog> {
    v1::TrialLog log;
    log.set_trial(JobName(study, number));
    const auto last = impl_->Find<std::int64_t, std::int64_t>(
        R"sql(
          SELECT j.id, COALESCE(MAX(a.number), 0)
          FROM jobs j
          LEFT JOIN attempts a ON a.job = j.id AND ? IN (0, a.number)
          WHERE j.study = ? AND j.trial = ?
          GROUP BY j.id)sql",
        attempt, study, number);
    if (!last) {
      return absl::NotFoundError(number > 0 ? fmt::format("no trial {}", log.trial())
                                            : fmt::format("study {} has run no calibration", study));
    }
    const auto [job, newest] = *last;
    log.set_attempt(newest);
    if (log.attempt() == 0) {
      return absl::NotFoundError(attempt == 0
                                     ? fmt::format("{} has no attempt yet; ask again later", log.trial())
                                     : fmt::format("{} has no attempt {}", log.trial(), attempt));
    }
    std::string text;
    for (const std::string& part : impl_->Rows<std::string>(
             "SELECT text FROM trial_logs WHERE job = ? AND attempt = ? ORDER BY id", job, log.attempt()))
      text += part;
    const std::size_t all = text.size();
    if (all > most_bytes) {
      const std::size_t end = text.find('\n', all - most_bytes - 1);  // of the last line that is left out
      const bool whole = end != std::string::npos && end + 1 < all;
      text = whole ? text.substr(end + 1) : base::CleanUtf8(text, most_bytes);
    }
    log.set_left_out_bytes(static_cast<std::int64_t>(all - text.size()));
    log.set_text(std::move(text));
    return log;
  });
}

}  // namespace autocfg::server
