// Reports and logs.
#include <utility>

#include "fmt/format.h"
#include "server/store/sqlite_store_impl.h"

namespace autocfg {
namespace {

constexpr const char* kReport = "report";
constexpr std::int64_t kMaxLogBytesPerAttempt = 1 << 20;

v1::TrialState StateOf(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_MEASURED:
      return v1::TRIAL_STATE_MEASURED;
    case v1::OUTCOME_OUT_OF_MEMORY:
      return v1::TRIAL_STATE_INFEASIBLE;
    case v1::OUTCOME_FAILED:
      return v1::TRIAL_STATE_FAILED;
    case v1::OUTCOME_TIMED_OUT:
      return v1::TRIAL_STATE_TIMED_OUT;
    case v1::OUTCOME_CANCELLED:
      return v1::TRIAL_STATE_CANCELLED;
    case v1::OUTCOME_REFUSED:
      return v1::TRIAL_STATE_LOST;
    default:
      return v1::TRIAL_STATE_UNSPECIFIED;
  }
}

}  // namespace

std::string SqliteStore::RefusalOf(const struct Report& report) {
  if (RequestIdTaken(report.request_id))
    return fmt::format("request_id {} was used for another request", report.request_id);
  SQLite::Statement row = Query(
      "SELECT worker, epoch, fencing_token, number, state FROM attempts WHERE lease_id = ?", report.lease_id);
  if (!row.executeStep()) return fmt::format("there is no lease {}", report.lease_id);
  if (row.getColumn(0).getString() != report.worker)
    return fmt::format("lease {} is another worker's", report.lease_id);
  if (row.getColumn(1).getInt64() != report.session_epoch) {
    return fmt::format("lease {} is of session {}, not {}", report.lease_id, row.getColumn(1).getInt64(),
                       report.session_epoch);
  }
  if (row.getColumn(2).getInt64() != report.fencing_token) {
    return fmt::format("lease {} has another fencing token than {}", report.lease_id, report.fencing_token);
  }
  if (row.getColumn(3).getInt64() != report.attempt) {
    return fmt::format("lease {} is for attempt {}, not {}", report.lease_id, row.getColumn(3).getInt64(),
                       report.attempt);
  }
  const int state = row.getColumn(4).getInt();
  if (state != v1::TRIAL_STATE_RUNNING) {
    return fmt::format("attempt {} of lease {} has ended ({})", report.attempt, report.lease_id,
                       v1::TrialState_Name(static_cast<v1::TrialState>(state)));
  }
  return "";
}

absl::Status SqliteStore::RecordReport(const struct Report& report, double now_s) {
  std::int64_t job = 0;
  std::int64_t study = 0;
  std::int64_t trial = 0;
  bool wanted = false;  // nobody has cancelled the job
  {
    SQLite::Statement row = Query(
        "SELECT j.id, j.study, j.trial, j.state FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.lease_id "
        "= ?",
        report.lease_id);
    row.executeStep();
    job = row.getColumn(0).getInt64();
    study = row.getColumn(1).getInt64();
    trial = row.getColumn(2).getInt64();
    wanted = row.getColumn(3).getInt() == v1::TRIAL_STATE_RUNNING;
  }
  const v1::TrialState state = StateOf(report.outcome);
  if (state == v1::TRIAL_STATE_UNSPECIFIED)
    return absl::InvalidArgumentError("outcome is missing or unknown");
  if (state == v1::TRIAL_STATE_MEASURED) {
    if (trial > 0 && (!report.measurement || report.measurement->step_time_s().empty())) {
      return absl::InvalidArgumentError("measurement.step_time_s is empty, and the job is a trial");
    }
    if (trial == 0 && !report.calibration) {
      return absl::InvalidArgumentError("calibration is missing, and the job is a calibration");
    }
  }

  if (state == v1::TRIAL_STATE_LOST && wanted) {
    RememberRequest(report.request_id, kReport, report.lease_id);
    SQLite::Statement lost = Query("UPDATE attempts SET state = ?, end_s = ?, message = ? WHERE lease_id = ? RETURNING job",
                                   static_cast<int>(state), now_s, report.message, report.lease_id);
    RequeueLost(lost, /*costs=*/true, report.message);
    return absl::OkStatus();
  }
  Execute("UPDATE attempts SET state = ?, end_s = ?, message = ? WHERE lease_id = ?", static_cast<int>(state),
          now_s, report.message, report.lease_id);
  if (report.out_of_memory) {
    Execute("UPDATE attempts SET out_of_memory = ? WHERE lease_id = ?", *report.out_of_memory,
            report.lease_id);
  }
  if (report.measurement) {
    const v1::Measurement& m = *report.measurement;
    Execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", job, report.attempt,
            m.median_step_time_s(), m.device_s(), m.build_id(), m.device_fingerprint(), m);
  }
  if (state == v1::TRIAL_STATE_MEASURED && trial == 0 && wanted) {
    Execute("INSERT INTO calibrations VALUES (?, ?, ?)", study, report.device_overhead_bytes,
            *report.calibration);
  }
  RememberRequest(report.request_id, kReport, report.lease_id);
  if (!wanted) {
    if (trial > 0) {
      SetTrialState(study, trial, v1::TRIAL_STATE_CANCELLED, "cancelled");
    } else {
      TouchStudy(study);
    }
  } else if (state == v1::TRIAL_STATE_CANCELLED) {
    SetJobState(job, study, trial, v1::TRIAL_STATE_QUEUED, "the worker gave it back");
  } else {
    SetJobState(job, study, trial, state, report.message);
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::Report(const struct Report& report, double now_s) {
  // The refusal is itself a write, so it is an answer of the transaction and not its error.
  const absl::StatusOr<std::string> refusal = Write([&]() -> absl::StatusOr<std::string> {
    const auto known = FindRequest(report.request_id, kReport);
    if (known && *known == report.lease_id) return "";
    std::string reason = RefusalOf(report);
    if (reason.empty()) {
      if (absl::Status status = RecordReport(report, now_s); !status.ok()) return status;
      return reason;
    }
    Execute(
        "INSERT INTO refused_reports (received_s, worker, epoch, lease_id, fencing_token, attempt, "
        "request_id, outcome, reason) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        now_s, report.worker, report.session_epoch, report.lease_id, report.fencing_token, report.attempt,
        report.request_id, static_cast<int>(report.outcome), reason);
    return reason;
  });
  if (!refusal.ok()) return refusal.status();
  if (!refusal->empty()) return absl::FailedPreconditionError("the report is refused: " + *refusal);
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> SqliteStore::RefusedReports() {
  return Read([&]() -> absl::StatusOr<std::int64_t> {
    return db().execAndGet("SELECT count(*) FROM refused_reports").getInt64();
  });
}

absl::Status SqliteStore::AppendLog(const std::string& lease_id, std::int64_t fencing_token,
                                    const std::string& text) {
  return Write([&]() -> absl::Status {
    std::int64_t job = 0;
    std::int64_t attempt = 0;
    {
      SQLite::Statement row =
          Query("SELECT job, number FROM attempts WHERE lease_id = ? AND fencing_token = ? AND state = ?",
                lease_id, fencing_token, static_cast<int>(v1::TRIAL_STATE_RUNNING));
      if (!row.executeStep()) {
        return absl::FailedPreconditionError(
            fmt::format("lease {} is not held any more: its log is not taken", lease_id));
      }
      job = row.getColumn(0).getInt64();
      attempt = row.getColumn(1).getInt64();
    }
    SQLite::Statement size = Query(
        "SELECT COALESCE(SUM(octet), 0) FROM (SELECT length(CAST(text AS BLOB)) AS octet FROM trial_logs "
        "WHERE job = ? AND attempt = ?)",
        job, attempt);
    size.executeStep();
    if (size.getColumn(0).getInt64() + static_cast<std::int64_t>(text.size()) > kMaxLogBytesPerAttempt) {
      return absl::ResourceExhaustedError(
          fmt::format("the log of lease {} is full: {} bytes are kept", lease_id, kMaxLogBytesPerAttempt));
    }
    Execute("INSERT INTO trial_logs (job, attempt, text) VALUES (?, ?, ?)", job, attempt, text);
    return absl::OkStatus();
  });
}

}  // namespace autocfg
