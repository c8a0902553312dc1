// Workers and leases.
#include <utility>

#include "fmt/format.h"
#include "server/store/sqlite_store_impl.h"

namespace autocfg {
namespace {

constexpr int kQueued = v1::TRIAL_STATE_QUEUED;
constexpr int kRunning = v1::TRIAL_STATE_RUNNING;
constexpr int kLost = v1::TRIAL_STATE_LOST;

}  // namespace

int SqliteStore::RequeueLost(SQLite::Statement& lost, bool costs, const std::string& message) {
  std::vector<std::int64_t> jobs;
  while (lost.executeStep()) jobs.push_back(lost.getColumn(0).getInt64());
  for (const std::int64_t job : jobs) {
    std::int64_t study = 0;
    std::int64_t trial = 0;
    bool again = false;
    {
      // A job that was cancelled or has ended meanwhile stays so.
      SQLite::Statement row = Query(
          "UPDATE jobs SET losses = losses + ?1 WHERE id = ?2 AND state = ?3 RETURNING study, trial, losses "
          "< max_attempts",
          costs ? 1 : 0, job, kRunning);
      if (!row.executeStep()) continue;
      study = row.getColumn(0).getInt64();
      trial = row.getColumn(1).getInt64();
      again = row.getColumn(2).getInt() != 0;
    }
    SetJobState(job, study, trial, again ? v1::TRIAL_STATE_QUEUED : v1::TRIAL_STATE_LOST, message);
  }
  return static_cast<int>(jobs.size());
}

absl::StatusOr<std::int64_t> SqliteStore::RegisterWorker(const v1::RegisterWorkerRequest& request,
                                                         double now_s) {
  return Write([&]() -> absl::StatusOr<std::int64_t> {
    const std::string& worker = request.worker();
    const std::int64_t slots = request.inventory().slots();
    SQLite::Statement row = Query("SELECT boot_id, epoch, active FROM workers WHERE worker = ?", worker);
    if (!row.executeStep()) {
      Execute("INSERT INTO workers VALUES (?, ?, 1, 1, ?, ?, ?)", worker, request.boot_id(), slots, now_s,
              request.inventory());
      return 1;
    }
    const bool same = row.getColumn(0).getString() == request.boot_id() && row.getColumn(2).getInt() != 0;
    const std::int64_t epoch = row.getColumn(1).getInt64() + (same ? 0 : 1);
    row.reset();
    Execute(
        "UPDATE workers SET boot_id = ?, epoch = ?, active = 1, slots = ?, registered_s = ?, inventory = ? "
        "WHERE worker = ?",
        request.boot_id(), epoch, slots, now_s, request.inventory(), worker);
    if (!same) {
      const std::string message = "the worker was started anew";
      SQLite::Statement lost = Query(
          "UPDATE attempts SET state = ?, end_s = ?, message = ? WHERE worker = ? AND state = ? RETURNING "
          "job",
          kLost, now_s, message, worker, kRunning);
      RequeueLost(lost, /*costs=*/true, message);
    }
    return epoch;
  });
}

absl::StatusOr<std::int64_t> SqliteStore::CheckWorker(const std::string& worker, std::int64_t session_epoch) {
  SQLite::Statement row = Query("SELECT epoch, slots, active FROM workers WHERE worker = ?", worker);
  if (!row.executeStep() || row.getColumn(2).getInt() == 0) {
    return absl::FailedPreconditionError(fmt::format("{} is not registered: register it again", worker));
  }
  if (row.getColumn(0).getInt64() != session_epoch) {
    return absl::FailedPreconditionError(fmt::format("{} is in session {} now, not in {}: register it again",
                                                     worker, row.getColumn(0).getInt64(), session_epoch));
  }
  return row.getColumn(1).getInt64();
}

absl::Status SqliteStore::DeregisterWorker(const std::string& worker, std::int64_t session_epoch,
                                           double now_s) {
  return Write([&]() -> absl::Status {
    if (auto slots = CheckWorker(worker, session_epoch); !slots.ok()) return slots.status();
    Execute("UPDATE workers SET active = 0 WHERE worker = ?", worker);
    const std::string message = "the worker was stopped";
    SQLite::Statement lost = Query(
        "UPDATE attempts SET state = ?, end_s = ?, message = ? WHERE worker = ? AND state = ? RETURNING job",
        kLost, now_s, message, worker, kRunning);
    RequeueLost(lost, /*costs=*/false, message);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::optional<Lease>> SqliteStore::LeaseJob(const std::string& worker,
                                                           std::int64_t session_epoch, double now_s,
                                                           double duration_s) {
  return Write([&]() -> absl::StatusOr<std::optional<Lease>> {
    const auto slots = CheckWorker(worker, session_epoch);
    if (!slots.ok()) return slots.status();
    Lease lease;
    std::int64_t job = 0;
    {
      SQLite::Statement row = Query(
          "UPDATE jobs SET state = ?1, message = '', attempts = attempts + 1 WHERE id = ("
          "  SELECT j.id FROM jobs j JOIN studies s ON s.id = j.study"
          "  WHERE j.state = ?2 AND s.state = ?3 AND j.ranks <= ?4 - ("
          "    SELECT COALESCE(SUM(b.ranks), 0) FROM attempts a JOIN jobs b ON b.id = a.job"
          "    WHERE a.state = ?1 AND a.worker = ?5)"
          "  ORDER BY j.id LIMIT 1) "
          "RETURNING id, study, trial, attempts, job",
          kRunning, kQueued, static_cast<int>(v1::STUDY_STATE_RUNNING), *slots, worker);
      if (!row.executeStep()) return std::optional<Lease>();
      job = row.getColumn(0).getInt64();
      lease.key = {row.getColumn(1).getInt64(), row.getColumn(2).getInt64()};
      lease.attempt = row.getColumn(3).getInt64();
      Parse(row.getColumn(4), lease.job);
    }
    lease.job.set_attempt(lease.attempt);
    lease.fencing_token = Next("fencing_token");
    lease.expires_s = now_s + duration_s;
    SQLite::Statement attempt = Query(
        "INSERT INTO attempts (job, number, state, worker, epoch, lease_id, fencing_token, expires_s, "
        "start_s) "
        "VALUES (?1, ?2, ?3, ?4, ?5, 'lease-' || ?6 || '-' || lower(hex(randomblob(8))), ?6, ?7, ?8) "
        "RETURNING lease_id",
        job, lease.attempt, kRunning, worker, session_epoch, lease.fencing_token, lease.expires_s, now_s);
    attempt.executeStep();
    lease.lease_id = attempt.getColumn(0).getString();
    attempt.reset();
    SetJobState(job, lease.key.study, lease.key.trial, v1::TRIAL_STATE_RUNNING, "");
    return std::optional<Lease>(std::move(lease));
  });
}

absl::StatusOr<v1::LeaseCommand> SqliteStore::RenewLease(const std::string& worker,
                                                         std::int64_t session_epoch,
                                                         const std::string& lease_id,
                                                         std::int64_t fencing_token, double now_s,
                                                         double duration_s) {
  return Write([&]() -> absl::StatusOr<v1::LeaseCommand> {
    if (auto slots = CheckWorker(worker, session_epoch); !slots.ok()) return slots.status();
    SQLite::Statement row = Query(
        "UPDATE attempts SET expires_s = ? WHERE lease_id = ? AND fencing_token = ? AND worker = ? AND epoch "
        "= ? AND state = ? "
        "RETURNING (SELECT j.state FROM jobs j WHERE j.id = attempts.job)",
        now_s + duration_s, lease_id, fencing_token, worker, session_epoch, kRunning);
    if (!row.executeStep()) {
      return absl::FailedPreconditionError(
          fmt::format("lease {} is not {}'s any more: drop its job", lease_id, worker));
    }
    return row.getColumn(0).getInt() == kRunning ? v1::LEASE_COMMAND_CONTINUE : v1::LEASE_COMMAND_CANCEL;
  });
}

absl::StatusOr<int> SqliteStore::ExpireLeases(double now_s) {
  return Write([&]() -> absl::StatusOr<int> {
    const std::string message = "the worker did not renew its lease";
    SQLite::Statement lost = Query(
        "UPDATE attempts SET state = ?, end_s = ?, message = ? WHERE state = ? AND expires_s <= ? RETURNING "
        "job",
        kLost, now_s, message, kRunning, now_s);
    return RequeueLost(lost, /*costs=*/true, message);
  });
}

}  // namespace autocfg
