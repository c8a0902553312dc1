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

absl::StatusOr<std::int64_t> Store::RegisterWorker(const v1::RegisterWorkerRequest& request, double now_s) {
  return impl_->Write([&]() -> absl::StatusOr<std::int64_t> {
    const std::string& worker = request.worker();
    const v1::Inventory& inventory = request.inventory();
    const std::string& host = inventory.hostname().empty() ? worker : inventory.hostname();
    const auto known = impl_->Find<std::string, std::int64_t, bool>(
        "SELECT boot_id, epoch, active FROM workers WHERE worker = ?", worker);
    if (!known) {
      impl_->Execute(
          R"sql(
            INSERT INTO workers
              (worker, boot_id, epoch, active, slots, registered_s, inventory, host, device_kind, engines)
            VALUES (?, ?, 1, 1, ?, ?, ?, ?, ?, ?))sql",
          worker, request.boot_id(), inventory.slots(), now_s, inventory, host, inventory.device_kind(),
          EngineLines(inventory));
      return 1;
    }
    const auto& [boot_id, last_epoch, active] = *known;
    const bool same_boot = boot_id == request.boot_id();
    const bool same = same_boot && active;
    const std::int64_t epoch = last_epoch + (same ? 0 : 1);
    impl_->Execute(
        R"sql(
          UPDATE workers
          SET boot_id = ?, epoch = ?, active = 1, slots = ?, registered_s = ?, inventory = ?, host = ?,
              device_kind = ?, engines = ?, draining = draining AND ?, gone_s = NULL
          WHERE worker = ?)sql",
        request.boot_id(), epoch, inventory.slots(), now_s, inventory, host, inventory.device_kind(),
        EngineLines(inventory), same_boot, worker);
    if (!same) {
      impl_->EndShares({.end = ShareEnd::kLost, .now_s = now_s, .message = "the worker was restarted"},
                       Impl::FoundBy::kWorker, "worker = ?5", worker);
    }
    return epoch;
  });
}

absl::Status Store::Impl::SessionStatus(const WorkerSession& session) {
  const auto row =
      Find<std::int64_t, bool>("SELECT epoch, active FROM workers WHERE worker = ?", session.worker);
  const auto [epoch, active] = row.value_or(std::tuple(std::int64_t{0}, false));
  // A session that the store does not know yet began after the backup that became this database.
  if (!active || epoch < session.epoch) return NotRegistered(session.worker);
  if (epoch != session.epoch) {
    return absl::FailedPreconditionError(fmt::format("{} is in session {} now, not in {}; register it again",
                                                     session.worker, epoch, session.epoch));
  }
  return absl::OkStatus();
}

std::optional<std::int64_t> Store::Impl::LastEpoch(const std::string& worker) {
  return Find<std::int64_t>("SELECT epoch FROM workers WHERE worker = ?", worker);
}

absl::Status Store::CheckSession(const WorkerSession& session) {
  return impl_->Read([&] { return impl_->SessionStatus(session); });
}

absl::Status Store::DeregisterWorker(const std::string& worker, std::int64_t session_epoch, double now_s) {
  return impl_->Write([&]() -> absl::Status {
    absl::Status status = impl_->SessionStatus({worker, session_epoch});
    if (absl::IsNotFound(status) && impl_->LastEpoch(worker) == session_epoch) return absl::OkStatus();
    if (!status.ok()) return status;
    impl_->Execute("UPDATE workers SET active = 0 WHERE worker = ?", worker);
    impl_->EndShares({.end = ShareEnd::kWithdrawn, .now_s = now_s, .message = "the worker was stopped"},
                     Impl::FoundBy::kWorker, "worker = ?5", worker);
    impl_->leaving_.erase(worker);
    impl_->change_.work = true;
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> Store::DrainWorker(const std::string& worker, const std::string& request_id) {
  return impl_->Write([&]() -> absl::StatusOr<bool> {
    const auto row = impl_->Find<bool, bool>("SELECT active, draining FROM workers WHERE worker = ?", worker);
    if (!row) return absl::NotFoundError(fmt::format("{} is not registered", worker));
    const auto [active, draining] = *row;
    if (const auto known = impl_->FindRequest(request_id, kDrain); known && *known == worker)
      return active && draining;
    if (impl_->RequestIdTaken(request_id)) {
      return impl_->RequestIdReused(request_id);
    }
    if (!active) {
      return absl::FailedPreconditionError(
          fmt::format("{} has deregistered; there is nothing to drain", worker));
    }
    impl_->RememberRequest(request_id, kDrain, worker);
    if (!draining) {
      impl_->Execute("UPDATE workers SET draining = 1 WHERE worker = ?", worker);
      impl_->change_.work = true;
    }
    return true;
  });
}

std::vector<WorkerRecord> Store::Impl::ReadWorkers(const ListLimit& limit, WorkerRows rows) {
  std::vector<WorkerRecord> workers;
  std::size_t bytes = 0;
  Query<std::int64_t, std::int64_t, std::int64_t> shares(db(), R"sql(
    SELECT j.study, j.trial, s.ranks
    FROM shares s INDEXED BY running_shares
    JOIN jobs j ON j.id = s.job
    WHERE s.ending = 0 AND s.worker = ?
    ORDER BY s.fencing_token)sql");
  while (!limit.Reached(workers.size(), bytes)) {
    auto row = rows.Next();
    if (!row) break;
    auto& [name, epoch, inventory, active, draining, registered_s] = *row;
    WorkerRecord& worker = workers.emplace_back();
    worker.session = {std::move(name), epoch};
    worker.inventory = std::move(inventory);
    worker.active = active;
    worker.draining = draining;
    worker.registered_s = registered_s;
    worker.leaves_s = LeavesAt(worker.session);
    for (const auto& [study, trial, ranks] : shares.With(worker.session.worker)) {
      worker.jobs.push_back(JobName(study, trial));
      worker.ranks_in_use += ranks;
    }
    bytes += worker.inventory.ByteSizeLong();
  }
  return workers;
}

absl::StatusOr<std::vector<WorkerRecord>> Store::ListWorkers(const std::string& after, const ListLimit& limit,
                                                             bool gone) {
  return impl_->Read([&] {
    return impl_->ReadWorkers(limit, "worker > ? AND active >= ? ORDER BY worker LIMIT ?", after, !gone,
                              limit.count);
  });
}

absl::StatusOr<WorkerRecord> Store::GetWorker(const std::string& worker) {
  return impl_->Read([&]() -> absl::StatusOr<WorkerRecord> {
    std::vector<WorkerRecord> found = impl_->ReadWorkers(1, "worker = ?", worker);
    if (found.empty()) return absl::NotFoundError(fmt::format("there is no worker {}", worker));
    return std::move(found.front());
  });
}

absl::Status Store::SetLeaving(const WorkerSession& session, std::optional<double> leaves_s) {
  return impl_->Read([&]() -> absl::Status {
    if (!leaves_s && !impl_->leaving_.contains(session.worker)) return absl::OkStatus();
    AUTOCFG_RETURN_IF_ERROR(impl_->SessionStatus(session));
    if (leaves_s) {
      impl_->leaving_[session.worker] = {session.epoch, *leaves_s};
    } else {
      impl_->leaving_.erase(session.worker);
    }
    return absl::OkStatus();
  });
}

std::optional<double> Store::Impl::LeavesAt(const WorkerSession& session) const {
  const auto found = leaving_.find(session.worker);
  if (found == leaving_.end() || found->second.first != session.epoch) return std::nullopt;
  return found->second.second;
}

double Store::Impl::NeededSeconds(std::int64_t job) {
  const v1::Job message = JobOf(job);
  double limit_s = message.time_limit_s();
  if (message.has_calibrate()) {
    const double needs_s =
        message.calibrate().limit_s() > 0 ? message.calibrate().limit_s() : kCalibrationNeedsS;
    limit_s = limit_s > 0 ? std::min(limit_s, needs_s) : needs_s;
  }
  return limit_s > 0 ? limit_s : std::numeric_limits<double>::infinity();
}

}  // namespace autocfg::server
