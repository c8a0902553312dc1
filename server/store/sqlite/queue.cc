// Reads the queue, the workers for it, and why jobs wait in it.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "server/names/names.h"
#include "server/store/placement.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

// CROSS JOIN keeps the order of the tables.
constexpr const char* kQueue =
    R"sql(
      SELECT s.id, j.id, j.ranks, j.device, j.fewer_ranks, j.attempts, j.trial, j.avoids_trial,
             j.engine
      FROM jobs j
      CROSS JOIN studies s ON s.id = j.study
      WHERE j.state = ?1 AND s.state = ?2
      ORDER BY j.id)sql";

// Returns the lines of a text that ends with a line break, or is empty.
std::set<std::string> LinesOf(const std::string& text) {
  std::set<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.insert(text.substr(begin, end - begin));
  return lines;
}

constexpr double kWithoutLimitSeconds = 600;  // what is taken to be left of a job without a time limit

}  // namespace

SQLite::Statement SqliteStore::Queue() {
  return Query(kQueue, static_cast<int>(v1::TRIAL_STATE_QUEUED), static_cast<int>(v1::STUDY_STATE_RUNNING));
}

double SqliteStore::LatestEndOfLeases(double now_s, double duration_s) {
  SQLite::Statement row =
      Query("SELECT MAX(IFNULL(latest_s, ?)) FROM shares WHERE ending = 0", now_s + kWithoutLimitSeconds);
  row.executeStep();
  return std::max(now_s + duration_s, row.getColumn(0).getDouble());  // 0 if there is none
}

// Returns the current sessions among those given, by name.
SqliteStore::WorkersAtWork SqliteStore::ReadWorkersAtWork(const std::vector<WorkerSession>& waiting,
                                                          const std::vector<WorkerSession>& live) {
  const std::set<WorkerSession> parked(waiting.begin(), waiting.end());
  std::set<WorkerSession> sessions(live.begin(), live.end());
  sessions.insert(parked.begin(), parked.end());
  std::map<std::string, std::int64_t> in_use;
  SQLite::Statement shares(db(), "SELECT worker, SUM(ranks) FROM shares WHERE ending = 0 GROUP BY worker");
  while (shares.executeStep()) in_use[shares.getColumn(0).getString()] = shares.getColumn(1).getInt64();
  WorkersAtWork at_work;
  SQLite::Statement row(db(),
                        R"sql(
        SELECT host, device_kind, slots, draining, engines
        FROM workers
        WHERE worker = ? AND epoch = ? AND active = 1)sql");
  for (const WorkerSession& session : sessions) {
    row.reset();
    row.bind(1, session.worker);
    row.bind(2, session.epoch);
    if (!row.executeStep()) continue;
    PlacementWorker& worker = at_work.workers.emplace_back();
    worker.host = row.getColumn(0).getString();
    worker.kind = WorkerKind(row.getColumn(1).getString());
    worker.slots = row.getColumn(2).getInt64();
    worker.draining = row.getColumn(3).getInt() != 0;
    worker.engines = LinesOf(row.getColumn(4).getString());
    const auto used = in_use.find(session.worker);
    worker.free = worker.slots - (used == in_use.end() ? 0 : used->second);
    worker.waiting = parked.contains(session);
    if (const auto leaves_s = LeavesAt(session)) worker.left_s = *leaves_s - leased_s_;
    at_work.sessions.push_back(session);
  }
  return at_work;
}

PlacementJob SqliteStore::ReadPlacementJob(SQLite::Statement& row) {
  PlacementJob job;
  job.ranks = row.getColumn(2).getInt64();
  job.needs = NeededKind(row.getColumn(3).getString());
  job.fewer_ranks = row.getColumn(4).getInt() != 0;
  job.engine = row.getColumn(8).getString();
  if (!leaving_.empty()) job.needs_s = NeededSeconds(row.getColumn(1).getInt64());
  if (const std::int64_t trial = row.getColumn(7).getInt64(); trial != 0) {
    SQLite::Statement hosts = Query(
        R"sql(
          SELECT DISTINCT w.host
          FROM jobs j
          JOIN shares s ON s.job = j.id
          JOIN workers w ON w.worker = s.worker
          WHERE j.study = ? AND j.trial = ?)sql",
        row.getColumn(0).getInt64(), trial);
    while (hosts.executeStep()) job.avoid.insert(hosts.getColumn(0).getString());
  }
  if (row.getColumn(5).getInt64() == 0) return job;  // never attempted
  SQLite::Statement hosts = Query(
      R"sql(
        SELECT DISTINCT w.host
        FROM shares s
        JOIN workers w ON w.worker = s.worker
        WHERE s.job = ? AND s.ending IN (?, ?, ?, ?, ?))sql",
      row.getColumn(1).getInt64(), static_cast<int>(ShareEnd::kLost), static_cast<int>(ShareEnd::kRefused),
      static_cast<int>(ShareEnd::kFailed), static_cast<int>(ShareEnd::kFailedByProcess),
      static_cast<int>(ShareEnd::kCancelled));
  while (hosts.executeStep()) job.avoid.insert(hosts.getColumn(0).getString());
  return job;
}

absl::StatusOr<std::vector<WaitingStudy>> SqliteStore::WaitingStudies(
    const std::vector<WorkerSession>& waiting, const std::vector<WorkerSession>& live, bool keeps) {
  return Read([&]() -> absl::StatusOr<std::vector<WaitingStudy>> {
    if (!Queue().executeStep()) return std::vector<WaitingStudy>();
    auto [workers, sessions] = ReadWorkersAtWork(waiting, live);
    std::map<std::string, std::set<std::int64_t>> run_on;  // studies by the worker that runs a job of theirs
    std::set<std::int64_t> running;
    {
      SQLite::Statement shares(
          db(), "SELECT s.worker, j.study FROM shares s JOIN jobs j ON j.id = s.job WHERE s.ending = 0");
      while (shares.executeStep()) {
        run_on[shares.getColumn(0).getString()].insert(shares.getColumn(1).getInt64());
        running.insert(shares.getColumn(1).getInt64());
      }
    }
    std::vector<std::int64_t> kept_for(workers.size());  // a study; 0: not kept
    std::set<std::int64_t> seen;
    std::set<PlacementJob> cannot;  // start now, so neither can later ones that are equal
    std::vector<WaitingStudy> waits;
    SQLite::Statement queue = Queue();
    while (queue.executeStep()) {
      const JobKey key{queue.getColumn(0).getInt64(), queue.getColumn(6).getInt64()};
      const bool oldest = seen.insert(key.study).second;
      const PlacementJob job = ReadPlacementJob(queue);
      if (!oldest && cannot.contains(job)) continue;
      const Placement placement = Place(job, workers);
      if (placement.shares.empty()) cannot.insert(job);
      for (const PlacedShare& share : placement.shares) {
        workers[share.worker].waiting = false;
        workers[share.worker].free -= share.ranks;
      }
      if (oldest && placement.shares.empty()) {
        if (!placement.nobody.empty()) {
          waits.push_back({key, WaitingStudy::Why::kNobody, placement.nobody});
        } else if (!running.contains(key.study)) {
          std::int64_t first = 0;
          std::set<std::int64_t> others;
          for (const std::size_t i : placement.reserves) {
            if (first == 0) first = kept_for[i];
            const std::set<std::int64_t>& there = run_on[sessions[i].worker];
            others.insert(there.begin(), there.end());
          }
          if (first != 0) {
            waits.push_back({key, WaitingStudy::Why::kKept, WhyKept(StudyName(first))});
          } else {
            std::vector<std::string> names;
            names.reserve(others.size());
            for (const std::int64_t study : others) names.push_back(StudyName(study));
            waits.push_back(
                {key, WaitingStudy::Why::kBusy, WhyBusy(job, workers, placement.reserves, names)});
          }
        }
      }
      if (!keeps) continue;
      for (const std::size_t i : placement.reserves) {
        if (!std::exchange(workers[i].reserved, true)) kept_for[i] = key.study;
      }
    }
    return waits;
  });
}

}  // namespace autocfg::server
