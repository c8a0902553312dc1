// Workers: sessions, drain and running jobs.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr const char* kWorkerColumns =
    "SELECT worker, epoch, inventory, active, draining, registered_s FROM workers ";

constexpr const char* kDrain = "drain";

// Returns the names of the engines, a line each.
std::string EngineLines(const v1::Inventory& inventory) {
  std::string lines;
  for (const v1::Engine& engine : inventory.engines()) lines += engine.name() + "\n";
  return lines;
}

absl::Status NotRegistered(const std::string& worker) {
  return absl::NotFoundError(fmt::format("{} is not registered; register it again", worker));
}

}  // namespace

absl::StatusOr<std::int64_t> SqliteStore::RegisterWorker(const v1::RegisterWorkerRequest& request,
                                                         double now_s) {
  return Write([&]() -> absl::StatusOr<std::int64_t> {
    const std::string& worker = request.worker();
    const v1::Inventory& inventory = request.inventory();
    const std::string& host = inventory.hostname().empty() ? worker : inventory.hostname();
    SQLite::Statement row = Query("SELECT boot_id, epoch, active FROM workers WHERE worker = ?", worker);
    if (!row.executeStep()) {
      Execute(
          R"sql(
            INSERT INTO workers
              (worker, boot_id, epoch, active, slots, registered_s, inventory, host, device_kind, engines)
            VALUES (?, ?, 1, 1, ?, ?, ?, ?, ?, ?))sql",
          worker, request.boot_id(), inventory.slots(), now_s, inventory, host, inventory.device_kind(),
          EngineLines(inventory));
      return 1;
    }
    const bool same_boot = row.getColumn(0).getString() == request.boot_id();
    const bool same = same_boot && row.getColumn(2).getInt() != 0;
    const std::int64_t epoch = row.getColumn(1).getInt64() + (same ? 0 : 1);
    row.reset();
    Execute(
        R"sql(
          UPDATE workers
          SET boot_id = ?, epoch = ?, active = 1, slots = ?, registered_s = ?, inventory = ?, host = ?,
              device_kind = ?, engines = ?, draining = draining AND ?, gone_s = NULL
          WHERE worker = ?)sql",
        request.boot_id(), epoch, inventory.slots(), now_s, inventory, host, inventory.device_kind(),
        EngineLines(inventory), same_boot ? 1 : 0, worker);
    if (!same) {
      EndShares({.end = ShareEnd::kLost, .now_s = now_s, .message = "the worker was restarted"},
                FoundBy::kWorker, "worker = ?5", worker);
    }
    return epoch;
  });
}

absl::Status SqliteStore::SessionStatus(const WorkerSession& session) {
  SQLite::Statement row = Query("SELECT epoch, active FROM workers WHERE worker = ?", session.worker);
  // A session that the store does not know yet began after the backup that became this database.
  if (!row.executeStep() || row.getColumn(1).getInt() == 0 || row.getColumn(0).getInt64() < session.epoch)
    return NotRegistered(session.worker);
  if (row.getColumn(0).getInt64() != session.epoch) {
    return absl::FailedPreconditionError(fmt::format("{} is in session {} now, not in {}; register it again",
                                                     session.worker, row.getColumn(0).getInt64(),
                                                     session.epoch));
  }
  return absl::OkStatus();
}

std::optional<std::int64_t> SqliteStore::LastEpoch(const std::string& worker) {
  SQLite::Statement row = Query("SELECT epoch FROM workers WHERE worker = ?", worker);
  if (!row.executeStep()) return std::nullopt;
  return row.getColumn(0).getInt64();
}

absl::Status SqliteStore::CheckSession(const WorkerSession& session) {
  return Read([&] { return SessionStatus(session); });
}

absl::Status SqliteStore::DeregisterWorker(const std::string& worker, std::int64_t session_epoch,
                                           double now_s) {
  return Write([&]() -> absl::Status {
    absl::Status status = SessionStatus({worker, session_epoch});
    if (absl::IsNotFound(status) && LastEpoch(worker) == session_epoch) return absl::OkStatus();
    if (!status.ok()) return status;
    Execute("UPDATE workers SET active = 0 WHERE worker = ?", worker);
    EndShares({.end = ShareEnd::kWithdrawn, .now_s = now_s, .message = "the worker was stopped"},
              FoundBy::kWorker, "worker = ?5", worker);
    leaving_.erase(worker);
    change_.work = true;
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> SqliteStore::DrainWorker(const std::string& worker, const std::string& request_id) {
  return Write([&]() -> absl::StatusOr<bool> {
    bool active = false;
    bool draining = false;
    {
      SQLite::Statement row = Query("SELECT active, draining FROM workers WHERE worker = ?", worker);
      if (!row.executeStep()) return absl::NotFoundError(fmt::format("{} is not registered", worker));
      active = row.getColumn(0).getInt() != 0;
      draining = row.getColumn(1).getInt() != 0;
    }
    if (const auto known = FindRequest(request_id, kDrain); known && *known == worker)
      return active && draining;
    if (RequestIdTaken(request_id)) {
      return RequestIdReused(request_id);
    }
    if (!active) {
      return absl::FailedPreconditionError(
          fmt::format("{} has deregistered; there is nothing to drain", worker));
    }
    RememberRequest(request_id, kDrain, worker);
    if (!draining) {
      Execute("UPDATE workers SET draining = 1 WHERE worker = ?", worker);
      change_.work = true;
    }
    return true;
  });
}

std::vector<WorkerRecord> SqliteStore::ReadWorkers(SQLite::Statement& rows, const ListLimit& limit) {
  std::vector<WorkerRecord> workers;
  std::size_t bytes = 0;
  SQLite::Statement shares(db(),
                           R"sql(
                             SELECT j.study, j.trial, s.ranks
                             FROM shares s INDEXED BY running_shares
                             JOIN jobs j ON j.id = s.job
                             WHERE s.ending = 0 AND s.worker = ?
                             ORDER BY s.fencing_token)sql");
  while (!limit.Reached(workers.size(), bytes) && rows.executeStep()) {
    WorkerRecord& worker = workers.emplace_back();
    worker.session = {rows.getColumn(0).getString(), rows.getColumn(1).getInt64()};
    Parse(rows.getColumn(2), worker.inventory);
    worker.active = rows.getColumn(3).getInt() != 0;
    worker.draining = rows.getColumn(4).getInt() != 0;
    worker.registered_s = rows.getColumn(5).getDouble();
    worker.leaves_s = LeavesAt(worker.session);
    shares.reset();
    shares.bind(1, worker.session.worker);
    while (shares.executeStep()) {
      const std::int64_t study = shares.getColumn(0).getInt64();
      const std::int64_t trial = shares.getColumn(1).getInt64();
      worker.jobs.push_back(JobName(study, trial));
      worker.ranks_in_use += shares.getColumn(2).getInt64();
    }
    bytes += worker.inventory.ByteSizeLong();
  }
  return workers;
}

absl::StatusOr<std::vector<WorkerRecord>> SqliteStore::ListWorkers(const std::string& after,
                                                                   const ListLimit& limit, bool gone) {
  return Read([&]() -> absl::StatusOr<std::vector<WorkerRecord>> {
    static const std::string sql =
        std::string(kWorkerColumns) + "WHERE worker > ? AND active >= ? ORDER BY worker LIMIT ?";
    SQLite::Statement rows = Query(sql.c_str(), after, gone ? 0 : 1, limit.count);
    return ReadWorkers(rows, limit);
  });
}

absl::StatusOr<WorkerRecord> SqliteStore::GetWorker(const std::string& worker) {
  return Read([&]() -> absl::StatusOr<WorkerRecord> {
    static const std::string sql = std::string(kWorkerColumns) + "WHERE worker = ?";
    SQLite::Statement rows = Query(sql.c_str(), worker);
    std::vector<WorkerRecord> found = ReadWorkers(rows, 1);
    if (found.empty()) return absl::NotFoundError(fmt::format("there is no worker {}", worker));
    return std::move(found.front());
  });
}

absl::Status SqliteStore::SetLeaving(const WorkerSession& session, std::optional<double> leaves_s) {
  return Read([&]() -> absl::Status {
    if (!leaves_s && !leaving_.contains(session.worker)) return absl::OkStatus();
    AUTOCFG_RETURN_IF_ERROR(SessionStatus(session));
    if (leaves_s) {
      leaving_[session.worker] = {session.epoch, *leaves_s};
    } else {
      leaving_.erase(session.worker);
    }
    return absl::OkStatus();
  });
}

std::optional<double> SqliteStore::LeavesAt(const WorkerSession& session) const {
  const auto found = leaving_.find(session.worker);
  if (found == leaving_.end() || found->second.first != session.epoch) return std::nullopt;
  return found->second.second;
}

double SqliteStore::NeededSeconds(std::int64_t job) {
  SQLite::Statement row = Query("SELECT job FROM jobs WHERE id = ?", job);
  row.executeStep();
  v1::Job message;
  Parse(row.getColumn(0), message);
  double limit_s = message.time_limit_s();
  if (message.has_calibrate()) {
    const double needs_s =
        message.calibrate().limit_s() > 0 ? message.calibrate().limit_s() : kCalibrationNeedsS;
    limit_s = limit_s > 0 ? std::min(limit_s, needs_s) : needs_s;
  }
  return limit_s > 0 ? limit_s : std::numeric_limits<double>::infinity();
}

}  // namespace autocfg::server
