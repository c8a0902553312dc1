// Assigns queued jobs (which worker gets which: queue.cc, placement.h); renews and ends leases.
#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/store/placement.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

// Extra lease time beyond a job's time limit, to start and end the ranks and to report.
constexpr double kBeyondLimitSeconds = 120;

// Of how many waiting jobs one look tries whether they fit beside the one that slots are kept for. Others
// come at a later look, so that a look takes no longer with a longer queue.
constexpr int kMostTried = 100;

constexpr const char* kNotArrived = "its lease did not reach the worker";

bool CanTakeMore(const PlacementWorker& worker) {
  return worker.waiting && !worker.closed && !worker.draining && worker.free > 0;
}

}  // namespace

std::optional<double> Store::Impl::LatestExpiry(double limit_s, double now_s) {
  if (limit_s <= 0) return std::nullopt;
  return now_s + limit_s + kBeyondLimitSeconds;
}

std::int64_t Store::Impl::RanksOf(const std::vector<PlacedShare>& shares) {
  std::int64_t ranks = 0;
  for (const PlacedShare& share : shares) ranks += share.ranks;
  return ranks;
}

void Store::Impl::GiveOut(std::int64_t job, const std::vector<PlacedShare>& shares,
                          const std::vector<WorkerSession>& sessions, double now_s, double duration_s,
                          std::vector<Lease>& leases) {
  Lease lease;
  std::tie(lease.key.study, lease.key.trial, lease.attempt, lease.job) =
      One<std::int64_t, std::int64_t, std::int64_t, v1::Job>(
          R"sql(
            UPDATE jobs
            SET state = ?, message = '', attempts = attempts + 1
            WHERE id = ?
            RETURNING study, trial, attempts, job)sql",
          v1::TRIAL_STATE_RUNNING, job);
  Execute("INSERT INTO attempts (job, number, state, start_s) VALUES (?, ?, ?, ?)", job, lease.attempt,
          v1::TRIAL_STATE_RUNNING, now_s);
  if (lease.attempt > 1 && lease.key.trial == 0 && lease.job.has_calibrate() && shares.size() == 1) {
    LeaveOutKeptOps(lease.key.study, job, sessions[shares.front().worker].worker, shares.front().ranks, now_s,
                    lease.job);
  }
  lease.job.set_attempt(lease.attempt);
  lease.workers = static_cast<std::int32_t>(shares.size());
  lease.expires_s = now_s + duration_s;
  // If one worker runs fewer ranks than requested, these are all of the job's ranks.
  if (lease.job.fewer_ranks()) lease.job.set_ranks(static_cast<std::int32_t>(shares.front().ranks));
  for (const PlacedShare& share : shares) {
    lease.session = sessions[share.worker];
    lease.ranks = static_cast<std::int32_t>(share.ranks);
    lease.fencing_token = Next("fencing_token");
    lease.lease_id = One<std::string>(
        R"sql(
          INSERT INTO shares
            (job, attempt, first_rank, ranks, worker, epoch, lease_id, fencing_token, expires_s, latest_s)
          VALUES
            (?1, ?2, ?3, ?4, ?5, ?6, 'lease-' || ?7 || '-' || lower(hex(randomblob(8))), ?7, ?8, ?9)
          RETURNING lease_id)sql",
        job, lease.attempt, lease.first_rank, lease.ranks, lease.session.worker, lease.session.epoch,
        lease.fencing_token, lease.expires_s, LatestExpiry(lease.job.time_limit_s(), now_s));
    leases.push_back(lease);
    ++commit_.leases_granted;
    lease.first_rank += lease.ranks;
  }
  SetJobState(job, lease.key.study, lease.key.trial, v1::TRIAL_STATE_RUNNING, "");
  Execute(
      R"sql(
        INSERT INTO owners (owner, started_s)
        SELECT owner, ?2
        FROM turns
        WHERE study = ?1
        ON CONFLICT DO UPDATE SET started_s = excluded.started_s)sql",
      lease.key.study, now_s);
}

absl::StatusOr<Assignment> Store::LeaseJobs(const std::vector<WorkerSession>& waiting,
                                            const std::vector<WorkerSession>& live, double now_s,
                                            double duration_s, bool keeps) {
  AUTOCFG_ASSIGN_OR_RETURN(const bool any, impl_->Read([&] { return impl_->AnyQueued(); }));
  if (!any) return Assignment();
  return impl_->Write([&] {
    Assignment assignment;
    std::vector<std::pair<std::int64_t, std::vector<PlacedShare>>> placed;  // by job
    const std::vector<RunningShare> running = ReadRunningShares(impl_->db());
    auto [workers, sessions] = impl_->ReadWorkersAtWork(waiting, live, running, now_s);
    {
      std::set<PlacementJob> cannot;  // start now, so neither can later ones that are equal
      int tried = 0;
      FairQueue queue(impl_->db(), running, now_s);
      while (std::any_of(workers.begin(), workers.end(), CanTakeMore)) {
        const std::optional<QueuedJob> queued = queue.Next();
        if (!queued) break;
        const PlacementJob job = impl_->ReadPlacementJob(*queued, now_s);
        if (cannot.contains(job)) continue;
        if (impl_->OverQuota(queue, queued->owner, job)) {
          // Later jobs do not pass one that waits for the owner's others.
          if (job.ranks <= impl_->limits_.devices) queue.SkipOwner();
          continue;
        }
        Placement placement = Place(job, workers);
        if (!placement.shares.empty()) {
          Take(job, placement.shares, workers);
          queue.Started(impl_->RanksOf(placement.shares));
          placed.emplace_back(queued->job, std::move(placement.shares));
          continue;
        }
        cannot.insert(job);
        if (placement.able.empty()) continue;
        if (!assignment.waits)
          assignment.waits = WaitingJob{queued->key, impl_->LatestEndOfLeases(running, now_s, duration_s)};
        if (!keeps || KeepSlots(job, placement.able, now_s, workers) || ++tried < kMostTried) continue;
        for (PlacementWorker& worker : workers)
          worker.closed = worker.closed || worker.kept_from_s < std::numeric_limits<double>::infinity();
      }
    }
    for (const auto& [job, shares] : placed)
      impl_->GiveOut(job, shares, sessions, now_s, duration_s, assignment.leases);
    return assignment;
  });
}

absl::Status Store::ReturnLease(const std::string& lease_id, std::int64_t fencing_token, double now_s) {
  return impl_->Write([&] {
    impl_->EndShares({ShareEnd::kWithdrawn, now_s, kNotArrived, /*used=*/false}, Impl::FoundBy::kLease,
                     "lease_id = ?5 AND fencing_token = ?6", lease_id, fencing_token);
  });
}

absl::Status Store::KeepOnly(const WorkerSession& session, const std::vector<std::string>& held,
                             double now_s) {
  AUTOCFG_ASSIGN_OR_RETURN(std::vector<std::string> gone, impl_->Read([&] {
    return impl_->All<std::string>(
        R"sql(
                                   SELECT lease_id
                                   FROM shares INDEXED BY running_shares
                                   WHERE ending = 0 AND worker = ? AND epoch = ?)sql",
        session.worker, session.epoch);
  }));
  const std::set<std::string> kept(held.begin(), held.end());
  std::erase_if(gone, [&](const std::string& lease) { return kept.contains(lease); });
  if (gone.empty()) return absl::OkStatus();
  return impl_->Write([&] {
    for (const std::string& lease : gone) {
      impl_->EndShares({ShareEnd::kWithdrawn, now_s, kNotArrived, /*used=*/false}, Impl::FoundBy::kLease,
                       "lease_id = ?5 AND worker = ?6 AND epoch = ?7", lease, session.worker, session.epoch);
    }
  });
}

absl::StatusOr<v1::LeaseCommand> Store::RenewLease(const std::string& worker, std::int64_t session_epoch,
                                                   const std::string& lease_id, std::int64_t fencing_token,
                                                   double now_s, double duration_s) {
  // In memory: a synced commit for each renewal would be most of what the disk has to do.
  return impl_->Read([&]() -> absl::StatusOr<v1::LeaseCommand> {
    const auto row = impl_->Find<bool, bool, double, std::optional<double>>(
        R"sql(
          SELECT a.stopping, w.draining, s.expires_s, s.latest_s
          FROM shares s
          JOIN attempts a ON a.job = s.job AND a.number = s.attempt
          JOIN workers w ON w.worker = s.worker
          WHERE s.lease_id = ? AND s.fencing_token = ? AND s.worker = ? AND s.epoch = ?
              AND s.ending = 0)sql",
        lease_id, fencing_token, worker, session_epoch);
    if (!row) {
      return absl::FailedPreconditionError(
          fmt::format("lease {} is no longer held by {}; drop its job", lease_id, worker));
    }
    const auto [stopping, draining, stored_s, latest_s] = *row;
    if (stopping) return v1::LEASE_COMMAND_CANCEL;
    double expires_s = std::max(now_s + duration_s, stored_s);
    if (latest_s) expires_s = std::min(expires_s, *latest_s);
    Impl::Renewal& renewal = impl_->renewals_[lease_id];
    renewal = {.expires_s = std::max(expires_s, renewal.expires_s), .stored_s = stored_s};
    return draining ? v1::LEASE_COMMAND_DRAIN : v1::LEASE_COMMAND_CONTINUE;
  });
}

void Store::Impl::WriteRenewals(double stored_until_s) {
  for (const auto& [lease, renewal] : renewals_) {
    if (renewal.stored_s > stored_until_s) continue;
    Execute("UPDATE shares SET expires_s = ?1 WHERE lease_id = ?2 AND ending = 0 AND expires_s < ?1",
            renewal.expires_s, lease);
    written_renewals_.push_back(lease);
  }
}

absl::StatusOr<int> Store::GrantAnew(double now_s, double duration_s) {
  return impl_->Write([&] {
    impl_->WriteRenewals(std::numeric_limits<double>::infinity());
    // Both right sides read the values from before.
    return impl_->Execute(
        "UPDATE shares SET expires_s = ?1, latest_s = latest_s + (?1 - expires_s) WHERE ending = 0",
        now_s + duration_s);
  });
}

absl::StatusOr<std::vector<std::string>> Store::LeasesToStop() {
  return impl_->Read([&] {
    return impl_->All<std::string>(
        R"sql(
          SELECT s.lease_id
          FROM attempts a
          CROSS JOIN shares s ON s.job = a.job AND s.attempt = a.number
          WHERE a.stopping = 1 AND s.ending = 0
          ORDER BY s.fencing_token)sql");
  });
}

absl::StatusOr<std::vector<std::string>> Store::WorkersOn(std::int64_t study) {
  return impl_->Read([&] {
    return impl_->All<std::string>(
        R"sql(
          SELECT DISTINCT s.worker
          FROM shares s
          JOIN jobs j ON j.id = s.job
          WHERE s.ending = 0 AND j.study = ?
          ORDER BY s.worker)sql",
        study);
  });
}

absl::StatusOr<ShareOfAttempt> Store::FindShare(const std::string& lease_id, std::int64_t fencing_token) {
  return impl_->Read([&]() -> absl::StatusOr<ShareOfAttempt> {
    auto row = impl_->Find<std::int64_t, std::int64_t, std::int64_t, std::int64_t, int, int, int, bool, bool>(
        R"sql(
          SELECT j.study, j.trial, s.job, s.attempt, s.first_rank, s.ranks,
              (SELECT SUM(t.ranks) FROM shares t WHERE t.job = s.job AND t.attempt = s.attempt),
              a.stopping,
              EXISTS (SELECT 1 FROM shares t
                      WHERE t.job = s.job AND t.attempt = s.attempt AND t.ending <> 0)
          FROM shares s
          JOIN attempts a ON a.job = s.job AND a.number = s.attempt
          JOIN jobs j ON j.id = s.job
          WHERE s.lease_id = ? AND s.fencing_token = ? AND s.ending = 0)sql",
        lease_id, fencing_token);
    if (row) return Make<ShareOfAttempt>(*row);
    return absl::FailedPreconditionError(fmt::format("lease {} is not held any more", lease_id));
  });
}

absl::StatusOr<std::vector<EndedLease>> Store::ExpireLeases(double now_s) {
  return impl_->Write([&] {
    impl_->WriteRenewals(now_s);
    auto ended = impl_->EndShares(
        {.end = ShareEnd::kLost,
         .now_s = now_s,
         .message = "the worker kept its lease beyond the job's time limit and reported nothing",
         .expired = true},
        Impl::FoundBy::kExpiry, "expires_s <= ?5 AND expires_s >= latest_s", now_s);
    const auto silent = impl_->EndShares(
        {.end = ShareEnd::kLost,
         .now_s = now_s,
         .message = "the worker did not renew its lease; check the worker's host and network",
         .expired = true},
        Impl::FoundBy::kExpiry, "expires_s <= ?5", now_s);
    ended.insert(ended.end(), silent.begin(), silent.end());
    return ended;
  });
}

absl::StatusOr<std::vector<EndedLease>> Store::WithdrawExpired(double now_s) {
  return impl_->Write([&] {
    impl_->WriteRenewals(now_s);
    return impl_->EndShares({.end = ShareEnd::kWithdrawn,
                             .now_s = now_s,
                             .message = "its lease expired while no coordinator was running"},
                            Impl::FoundBy::kExpiry, "expires_s <= ?5", now_s);
  });
}

absl::StatusOr<std::vector<EndedLease>> Store::LoseGangShares(const WorkerSession& session,
                                                              const std::string& message, double now_s) {
  return impl_->Write([&] {
    constexpr const char* kOfGangs = R"sql(
      worker = ?5 AND epoch = ?6 AND
        (SELECT count(*) FROM shares t WHERE t.job = shares.job AND t.attempt = shares.attempt) > 1)sql";
    return impl_->EndShares({.end = ShareEnd::kLost, .now_s = now_s, .message = message},
                            Impl::FoundBy::kWorker, kOfGangs, session.worker, session.epoch);
  });
}

}  // namespace autocfg::server
