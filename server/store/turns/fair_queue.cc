#include "server/store/turns/fair_queue.h"

#include <algorithm>
#include <tuple>

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
  Query<std::string, std::int64_t, std::string, std::int64_t, double, std::optional<double>> rows(db, R"sql(
    SELECT s.worker, j.study, t.owner, s.ranks, a.start_s, s.latest_s
    FROM shares s INDEXED BY running_shares
    CROSS JOIN attempts a ON a.job = s.job AND a.number = s.attempt
    CROSS JOIN jobs j ON j.id = s.job
    CROSS JOIN turns t ON t.study = j.study
    WHERE s.ending = 0)sql");
  for (auto& row : rows) running.push_back(Make<RunningShare>(std::move(row)));
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
  Query<std::string> next(db, kNextOwner);
  for (auto name = Query<std::string>(db, kFirstOwner).Next(); name; name = next.With(*name).Next()) {
    AddOwner(*name);
    Owner& owner = owners_[*name];
    if (const auto runs = owners_s.find(*name); runs != owners_s.end())
      owner.use = AddUse(owner.use, runs->second, now_s);
    Place(*name, owner);
  }
}

void FairQueue::AddOwner(const std::string& name) {
  Owner& owner = owners_[name];
  const auto stored =
      Query<double, double>(db_, "SELECT use, started_s FROM owners WHERE owner = ?", name).Next();
  std::tie(owner.use, owner.started_s) = stored.value_or(std::tuple(kNoUse, now_s_ - kLongestPassedSeconds));
  owner.last_read.use = 2 * kNoUse;  // before all
}

bool FairQueue::ReadTurns(const std::string& name, Owner& owner) {
  // Those that run a job have used more than is stored, so they may come later than stored.
  while (!owner.all_read && (owner.turns.empty() || owner.last_read < *owner.turns.begin())) {
    int read = 0;
    for (const auto& [use, study, weight] :
         turns_.With(name, owner.last_read.use, owner.last_read.study, kTurnsPerRead)) {
      Turn turn{.use = use, .study = study, .weight = weight};
      owner.last_read = turn;
      if (const auto runs = running_s_.find(study); runs != running_s_.end())
        turn.use = AddUse(use, runs->second / weight, now_s_);
      owner.turns.insert(turn);
      ++read;
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
  const auto row = jobs_.With(turn.study, v1::TRIAL_STATE_QUEUED, turn.after).Next();
  if (!row) return std::nullopt;
  QueuedJob job;
  std::tie(job.job, job.ranks, job.device, job.fewer_ranks, job.attempts, job.key.trial, job.avoids_trial,
           job.engine, job.limit_s) = *row;
  job.key.study = turn.study;
  turn.after = job.job;
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
