// Reads the queue, the workers for it, and why jobs wait in it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "server/names/names.h"
#include "server/store/placement.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr double kWithoutLimitSeconds = 600;  // what is taken to be left of a job without a time limit

}  // namespace

bool Store::Impl::AnyQueued() {
  return Find<int>("SELECT 1 FROM turns INDEXED BY ready_turns WHERE running = 1 AND queued > 0 LIMIT 1")
      .has_value();
}

double Store::Impl::LatestEndOfLeases(const std::vector<RunningShare>& running, double now_s,
                                      double duration_s) {
  double latest_s = now_s + duration_s;
  for (const RunningShare& share : running)
    latest_s = std::max(latest_s, share.latest_s.value_or(now_s + kWithoutLimitSeconds));
  return latest_s;
}

// Returns the current sessions among those given, by name.
Store::Impl::WorkersAtWork Store::Impl::ReadWorkersAtWork(const std::vector<WorkerSession>& waiting,
                                                          const std::vector<WorkerSession>& live,
                                                          const std::vector<RunningShare>& running,
                                                          double now_s) {
  const std::set<WorkerSession> parked(waiting.begin(), waiting.end());
  std::set<WorkerSession> sessions(live.begin(), live.end());
  sessions.insert(parked.begin(), parked.end());
  std::map<std::string, std::vector<std::pair<double, std::int64_t>>> ends;
  for (const RunningShare& share : running)
    ends[share.worker].emplace_back(share.latest_s.value_or(now_s + kWithoutLimitSeconds), share.ranks);
  WorkersAtWork at_work;
  Query<std::string, std::string, std::int64_t, bool, std::string> rows(db(), R"sql(
    SELECT host, device_kind, slots, draining, engines
    FROM workers
    WHERE worker = ? AND epoch = ? AND active = 1)sql");
  for (const WorkerSession& session : sessions) {
    const auto row = rows.With(session.worker, session.epoch).Next();
    if (!row) continue;
    const auto& [host, kind, slots, draining, engines] = *row;
    PlacementWorker& worker = at_work.workers.emplace_back();
    worker.host = host;
    worker.kind = WorkerKind(kind);
    worker.slots = slots;
    worker.draining = draining;
    worker.engines = absl::StrSplit(engines, '\n', absl::SkipEmpty());
    worker.free = worker.slots;
    if (const auto used = ends.find(session.worker); used != ends.end()) worker.ends = used->second;
    for (const auto& [end_s, ranks] : worker.ends) worker.free -= ranks;
    worker.waiting = parked.contains(session);
    if (const auto leaves_s = LeavesAt(session)) worker.left_s = *leaves_s - now_s;
    at_work.sessions.push_back(session);
  }
  return at_work;
}

PlacementJob Store::Impl::ReadPlacementJob(const QueuedJob& queued, double now_s) {
  PlacementJob job;
  job.ranks = queued.ranks;
  if (queued.fewer_ranks && limits_.devices > 0) job.ranks = std::min(job.ranks, limits_.devices);
  job.needs = NeededKind(queued.device);
  job.fewer_ranks = queued.fewer_ranks;
  job.engine = queued.engine;
  if (const auto latest_s = LatestExpiry(queued.limit_s, now_s)) job.ends_s = *latest_s;
  if (!leaving_.empty()) job.needs_s = NeededSeconds(queued.job);
  if (queued.avoids_trial != 0) {
    for (const std::string& host : Rows<std::string>(
             R"sql(
               SELECT DISTINCT w.host
               FROM jobs j
               JOIN shares s ON s.job = j.id
               JOIN workers w ON w.worker = s.worker
               WHERE j.study = ? AND j.trial = ?)sql",
             queued.key.study, queued.avoids_trial))
      job.avoid.insert(host);
  }
  if (queued.attempts == 0) return job;
  for (const std::string& host : Rows<std::string>(
           R"sql(
             SELECT DISTINCT w.host
             FROM shares s
             JOIN workers w ON w.worker = s.worker
             WHERE s.job = ? AND s.ending IN (?, ?, ?, ?, ?))sql",
           queued.job, ShareEnd::kLost, ShareEnd::kRefused, ShareEnd::kFailed, ShareEnd::kFailedByProcess,
           ShareEnd::kCancelled))
    job.avoid.insert(host);
  return job;
}

bool Store::Impl::OverQuota(const FairQueue& queue, const std::string& owner, const PlacementJob& job) const {
  return limits_.devices > 0 && queue.RanksOf(owner) + job.ranks > limits_.devices;
}

absl::StatusOr<std::vector<WaitingStudy>> Store::WaitingStudies(const std::vector<WorkerSession>& waiting,
                                                                const std::vector<WorkerSession>& live,
                                                                double now_s, bool keeps) {
  return impl_->Read([&] {
    std::vector<WaitingStudy> waits;
    if (!impl_->AnyQueued()) return waits;
    const std::vector<RunningShare> running = ReadRunningShares(impl_->db());
    auto [workers, sessions] = impl_->ReadWorkersAtWork(waiting, live, running, now_s);
    std::map<std::string, std::set<std::int64_t>> run_on;  // studies by the worker that runs a job of theirs
    std::set<std::int64_t> at_work;
    for (const RunningShare& share : running) {
      run_on[share.worker].insert(share.study);
      at_work.insert(share.study);
    }
    std::vector<std::int64_t> first(workers.size());  // the study whose job comes first there; 0: none waits
    std::set<std::int64_t> seen;
    std::set<PlacementJob> cannot;  // start now, so neither can later ones that are equal
    std::set<std::string> skipped;  // owners of whom a job waits for their others
    FairQueue queue(impl_->db(), running, now_s);
    while (const std::optional<QueuedJob> queued = queue.Next()) {
      const JobKey& key = queued->key;
      const bool oldest = seen.insert(key.study).second;
      const PlacementJob job = impl_->ReadPlacementJob(*queued, now_s);
      if (!oldest && cannot.contains(job)) continue;
      if (skipped.contains(queued->owner) || impl_->OverQuota(queue, queued->owner, job)) {
        const bool never = job.ranks > impl_->limits_.devices;
        if (!never) skipped.insert(queued->owner);
        if (oldest && (never || !at_work.contains(key.study))) {
          waits.push_back({key, never ? WaitingStudy::Why::kNobody : WaitingStudy::Why::kQuota,
                           WhyQuota(queued->owner, impl_->limits_, job.ranks, queue.RanksOf(queued->owner))});
        }
        continue;
      }
      const Placement placement = Place(job, workers);
      if (!placement.shares.empty()) {
        Take(job, placement.shares, workers);
        queue.Started(impl_->RanksOf(placement.shares));
        continue;
      }
      cannot.insert(job);
      if (oldest && !placement.nobody.empty()) {
        waits.push_back({key, WaitingStudy::Why::kNobody, placement.nobody});
      } else if (oldest && !at_work.contains(key.study)) {
        std::int64_t before = 0;
        std::set<std::int64_t> others;
        for (const std::size_t i : placement.able) {
          if (before == 0 && first[i] != key.study) before = first[i];
          const std::set<std::int64_t>& there = run_on[sessions[i].worker];
          others.insert(there.begin(), there.end());
        }
        if (before != 0) {
          waits.push_back({key, WaitingStudy::Why::kKept, WhyKept(StudyName(before))});
        } else {
          std::vector<std::string> names;
          names.reserve(others.size());
          for (const std::int64_t study : others) names.push_back(StudyName(study));
          waits.push_back({key, WaitingStudy::Why::kBusy, WhyBusy(job, workers, placement.able, names)});
        }
      }
      if (!keeps || placement.able.empty() || !KeepSlots(job, placement.able, now_s, workers)) continue;
      for (const std::size_t i : placement.able) first[i] = key.study;
    }
    std::sort(waits.begin(), waits.end(),
              [](const WaitingStudy& a, const WaitingStudy& b) { return a.job < b.job; });
    return waits;
  });
}

}  // namespace autocfg::server
