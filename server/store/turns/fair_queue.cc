#include "server/store/turns/fair_queue.h"

#include <algorithm>

namespace autocfg::server {
namespace {

constexpr int kTurnsPerRead = 16;

// The partial index has the studies that run and have queued jobs.
constexpr const char* kFirstOwner =
    "SELECT owner FROM turns INDEXED BY ready_turns WHERE running = 1 AND queued > 0 ORDER BY owner LIMIT 1";
constexpr const char* kNextOwner =
    R"sql(
      SELECT owner
      FROM turns INDEXED BY ready_turns
      WHERE running = 1 AND queued > 0 AND owner > ?
      ORDER BY owner
      LIMIT 1)sql";
constexpr const char* kTurns =
    R"sql(
      SELECT use, study, weight
      FROM turns INDEXED BY ready_turns
      WHERE running = 1 AND queued > 0 AND owner = ?1 AND (use, study) > (?2, ?3)
      ORDER BY use, study
      LIMIT ?4)sql";
constexpr const char* kJobs =
    R"sql(
      SELECT id, ranks, device, fewer_ranks, attempts, trial, avoids_trial, engine, limit_s
      FROM jobs
      WHERE study = ? AND state = ? AND id > ?
      ORDER BY id
      LIMIT 1)sql";

}  // namespace

std::vector<RunningShare> ReadRunningShares(SQLite::Database& db) {
  std::vector<RunningShare> running;
  SQLite::Statement rows(db,
                         R"sql(
        SELECT s.worker, j.study, t.owner, s.ranks, a.start_s, s.latest_s
        FROM shares s INDEXED BY running_shares
        CROSS JOIN attempts a ON a.job = s.job AND a.number = s.attempt
        CROSS JOIN jobs j ON j.id = s.job
        CROSS JOIN turns t ON t.study = j.study
        WHERE s.ending = 0)sql");
  while (rows.executeStep()) {
    RunningShare& share = running.emplace_back();
    share.worker = rows.getColumn(0).getString();
    share.study = rows.getColumn(1).getInt64();
    share.owner = rows.getColumn(2).getString();
    share.ranks = rows.getColumn(3).getInt64();
    share.start_s = rows.getColumn(4).getDouble();
    if (!rows.getColumn(5).isNull()) share.latest_s = rows.getColumn(5).getDouble();
  }
  return running;
}

FairQueue::FairQueue(SQLite::Database& db, const std::vector<RunningShare>& running, double now_s)
    : db_(db), now_s_(now_s), turns_(db, kTurns), jobs_(db, kJobs) {
  std::map<std::string, double> owners_s;
  for (const RunningShare& share : running) {
    const double rank_s =
        static_cast<double>(share.ranks) * std::max(kLeastRunSeconds, now_s - share.start_s);
    running_s_[share.study] += rank_s;
    owners_s[share.owner] += rank_s;
    owners_[share.owner].ranks += share.ranks;
  }
  SQLite::Statement next(db, kNextOwner);
  SQLite::Statement first(db, kFirstOwner);
  for (bool found = first.executeStep(); found; found = next.executeStep()) {
    const std::string name = (next.hasRow() ? next : first).getColumn(0).getString();
    AddOwner(name);
    Owner& owner = owners_[name];
    if (const auto runs = owners_s.find(name); runs != owners_s.end())
      owner.use = AddUse(owner.use, runs->second, now_s);
    Place(name, owner);
    next.reset();
    next.bind(1, name);
  }
}

void FairQueue::AddOwner(const std::string& name) {
  Owner& owner = owners_[name];
  SQLite::Statement row(db_, "SELECT use, started_s FROM owners WHERE owner = ?");
  row.bind(1, name);
  owner.started_s = now_s_ - kLongestPassedSeconds;
  if (row.executeStep()) {
    owner.use = row.getColumn(0).getDouble();
    owner.started_s = row.getColumn(1).getDouble();
  }
  owner.last_read.use = 2 * kNoUse;  // before all
}

bool FairQueue::ReadTurns(const std::string& name, Owner& owner) {
  // Those that run a job have used more than is stored, so they may come later than stored.
  while (!owner.all_read && (owner.turns.empty() || owner.last_read < *owner.turns.begin())) {
    turns_.reset();
    turns_.bind(1, name);
    turns_.bind(2, owner.last_read.use);
    turns_.bind(3, owner.last_read.study);
    turns_.bind(4, kTurnsPerRead);
    int read = 0;
    for (; turns_.executeStep(); ++read) {
      Turn turn;
      turn.use = turns_.getColumn(0).getDouble();
      turn.study = turns_.getColumn(1).getInt64();
      turn.weight = turns_.getColumn(2).getDouble();
      owner.last_read = turn;
      if (const auto runs = running_s_.find(turn.study); runs != running_s_.end())
        turn.use = AddUse(turn.use, runs->second / turn.weight, now_s_);
      owner.turns.insert(turn);
    }
    owner.all_read = read < kTurnsPerRead;
  }
  return !owner.turns.empty();
}

void FairQueue::Place(const std::string& name, Owner& owner) {
  if (!ReadTurns(name, owner)) return;
  const bool passed = owner.ranks == 0 && now_s_ - owner.started_s >= kLongestPassedSeconds;
  places_.insert({.passed = passed,
                  .started_s = owner.started_s,
                  .use = owner.use,
                  .study = owner.turns.begin()->study,
                  .owner = name});
}

std::optional<QueuedJob> FairQueue::OldestOf(Turn& turn) {
  jobs_.reset();
  jobs_.bind(1, turn.study);
  jobs_.bind(2, static_cast<int>(v1::TRIAL_STATE_QUEUED));
  jobs_.bind(3, turn.after);
  if (!jobs_.executeStep()) return std::nullopt;
  QueuedJob job;
  job.job = turn.after = jobs_.getColumn(0).getInt64();
  job.ranks = jobs_.getColumn(1).getInt64();
  job.device = jobs_.getColumn(2).getString();
  job.fewer_ranks = jobs_.getColumn(3).getInt() != 0;
  job.attempts = jobs_.getColumn(4).getInt64();
  job.key = {turn.study, jobs_.getColumn(5).getInt64()};
  job.avoids_trial = jobs_.getColumn(6).getInt64();
  job.engine = jobs_.getColumn(7).getString();
  job.limit_s = jobs_.getColumn(8).getDouble();
  return job;
}

std::optional<QueuedJob> FairQueue::Next() {
  if (last_) {
    Owner& owner = owners_[last_->owner];
    owner.turns.insert(last_->turn);
    Place(last_->owner, owner);
    last_.reset();
  }
  while (!places_.empty()) {
    const std::string name = places_.begin()->owner;
    places_.erase(places_.begin());
    Owner& owner = owners_[name];
    Turn turn = *owner.turns.begin();
    owner.turns.erase(owner.turns.begin());
    std::optional<QueuedJob> job = OldestOf(turn);
    if (!job) {
      Place(name, owner);
      continue;
    }
    job->owner = name;
    last_ = Last{name, turn};
    return job;
  }
  return std::nullopt;
}

void FairQueue::Started(std::int64_t ranks) {
  const double rank_s = static_cast<double>(ranks) * kLeastRunSeconds;
  last_->turn.use = AddUse(last_->turn.use, rank_s / last_->turn.weight, now_s_);
  Owner& owner = owners_[last_->owner];
  owner.use = AddUse(owner.use, rank_s, now_s_);
  owner.ranks += ranks;
}

void FairQueue::SkipOwner() { last_.reset(); }

std::int64_t FairQueue::RanksOf(const std::string& owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? 0 : found->second.ranks;
}

}  // namespace autocfg::server
