#include "server/sched/presence.h"

#include <algorithm>
#include <utility>

namespace autocfg::server {

Presence::Entry* Presence::Current(const WorkerSession& session) {
  const auto at = workers_.find(session.worker);
  return at == workers_.end() || at->second.epoch != session.epoch ? nullptr : &at->second;
}

void Presence::Note(const WorkerSession& session, double now_s) {
  const auto [at, is_new] = workers_.try_emplace(session.worker);
  if (!is_new) return;
  at->second.epoch = session.epoch;
  at->second.noted_s = now_s;
  at->second.silent = true;  // TakeSilent does not report sessions that this coordinator never heard
}

bool Presence::Heard(const WorkerSession& session, double now_s) {
  Entry& entry = workers_[session.worker];
  if (entry.epoch > session.epoch) return false;
  if (entry.epoch < session.epoch) {
    const double first_s = entry.worked_s > 0 ? 0 : entry.first_s;
    entry = Entry();
    entry.epoch = session.epoch;
    entry.first_s = first_s;
  }
  if (entry.first_s == 0) entry.first_s = now_s;
  entry.last_s = now_s;
  entry.lost_at.reset();
  entry.lost = false;
  entry.silent = false;
  return true;
}

void Presence::Works(const WorkerSession& session, double now_s) {
  if (Entry* entry = Current(session)) entry->worked_s = now_s;
}

void Presence::Parked(const WorkerSession& session) {
  if (Entry* entry = Current(session)) ++entry->parked;
}

void Presence::Unparked(const WorkerSession& session, bool broke, double now_s, SteadyTime now) {
  Entry* entry = Current(session);
  if (entry == nullptr) return;
  --entry->parked;
  entry->parked_until_s = now_s;
  if (!broke) {
    entry->last_s = now_s;
    entry->worked_s = now_s;
  } else if (entry->parked == 0) {
    entry->lost_at = std::max(now + absl::ToChronoNanoseconds(grace_), excused_until_);
  }
}

void Presence::Dismissed(const WorkerSession& session) {
  if (Entry* entry = Current(session)) --entry->parked;
}

void Presence::Forget(const WorkerSession& session) {
  if (Current(session) != nullptr) workers_.erase(session.worker);
}

void Presence::Excuse(double late_s, double now_s, SteadyTime now) {
  excused_until_ = now + absl::ToChronoNanoseconds(absl::Seconds(lease_duration_s_));
  for (auto& [worker, entry] : workers_) {
    if (now_s - late_s - SilentSince(entry) <= lease_duration_s_) {
      entry.excused_s = now_s;
      if (entry.first_s > 0) entry.first_s = std::min(entry.first_s + late_s, now_s);
      if (entry.worked_s > 0) entry.worked_s = std::min(entry.worked_s + late_s, now_s);
    }
    if (entry.lost_at) entry.lost_at = std::max(*entry.lost_at, excused_until_);
  }
}

std::vector<WorkerSession> Presence::TakeLost(SteadyTime now) {
  std::vector<WorkerSession> lost;
  for (auto& [worker, entry] : workers_) {
    if (!entry.lost_at || *entry.lost_at > now) continue;
    entry.lost_at.reset();
    entry.lost = true;
    lost.push_back({worker, entry.epoch});
  }
  return lost;
}

std::vector<WorkerSession> Presence::TakeSilent(double now_s) {
  std::vector<WorkerSession> silent;
  for (auto& [worker, entry] : workers_) {
    if (entry.parked > 0 || entry.silent || now_s - SilentSince(entry) <= lease_duration_s_) continue;
    entry.silent = true;
    silent.push_back({worker, entry.epoch});
  }
  return silent;
}

std::vector<WorkerSession> Presence::TakeAbandoned(double now_s, double after_s) {
  std::vector<WorkerSession> abandoned;
  for (const auto& [worker, entry] : workers_) {
    if (entry.parked == 0 && now_s - std::max(entry.noted_s, SilentSince(entry)) > after_s)
      abandoned.push_back({worker, entry.epoch});
  }
  for (const WorkerSession& session : abandoned) workers_.erase(session.worker);
  return abandoned;
}

SteadyTime Presence::NextLoss() const {
  SteadyTime next = SteadyTime::max();
  for (const auto& [worker, entry] : workers_) {
    if (entry.lost_at) next = std::min(next, *entry.lost_at);
  }
  return next;
}

bool Presence::IsAtWork(const Entry& entry, double now_s) const {
  return entry.parked > 0 ||
         (!entry.lost && entry.worked_s > 0 && now_s - entry.worked_s < lease_duration_s_);
}

std::vector<WorkerSession> Presence::AtWork(double now_s) const {
  std::vector<WorkerSession> at_work;
  for (const auto& [worker, entry] : workers_) {
    if (IsAtWork(entry, now_s)) at_work.push_back({worker, entry.epoch});
  }
  return at_work;
}

Presence::Seen Presence::Find(const std::string& worker, double now_s) const {
  const auto at = workers_.find(worker);
  if (at == workers_.end()) return {};
  const Entry& entry = at->second;
  if (entry.parked > 0) return {.last_s = now_s, .silent = false, .takes_jobs = true};
  const bool is_new = entry.worked_s == 0 && entry.last_s > 0 && now_s - entry.first_s < kNewWorkerGraceS;
  return {.last_s = entry.last_s,
          .silent = now_s - SilentSince(entry) > lease_duration_s_,
          .takes_jobs = is_new || IsAtWork(entry, now_s)};
}

double Presence::QuietFor(const std::string& worker, double now_s) const {
  const auto at = workers_.find(worker);
  if (at == workers_.end() || at->second.parked > 0) return 0;
  const Entry& entry = at->second;
  return std::max(0.0, now_s - std::max({SilentSince(entry), entry.noted_s, entry.parked_until_s}));
}

bool Presence::TellDrainToPoll(const WorkerSession& session) {
  Entry* entry = Current(session);
  return entry != nullptr && !std::exchange(entry->poll_told, true);
}

bool Presence::TellDrainToRenewal(const WorkerSession& session) {
  Entry* entry = Current(session);
  return entry != nullptr && !std::exchange(entry->renewal_told, true);
}

v1::WorkerState StateOf(const WorkerRecord& record, bool silent) {
  if (!record.active) return v1::WORKER_STATE_GONE;
  if (silent) return v1::WORKER_STATE_SILENT;
  return record.draining ? v1::WORKER_STATE_DRAINING : v1::WORKER_STATE_ACTIVE;
}

}  // namespace autocfg::server
