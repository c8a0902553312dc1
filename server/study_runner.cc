#include "server/study_runner.h"

#include <utility>

#include "server/resource_names.h"
#include "server/study_run.h"
#include "spdlog/spdlog.h"

namespace autocfg {

StudyRunners::StudyRunners(Store& store, Notifier& notifier, Clock clock, WorkersAtWork workers)
    : store_(store), notifier_(notifier), clock_(std::move(clock)), workers_(std::move(workers)) {}

StudyRunners::~StudyRunners() { Stop(); }

void StudyRunners::Start(std::int64_t study) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  std::unique_ptr<Entry>& entry = entries_[study];
  if (entry == nullptr) entry = std::make_unique<Entry>();
  // An active runner looks at the study's state once more under the mutex before it ends.
  if (entry->active) return;
  if (entry->thread.joinable()) entry->thread.join();
  entry->active = true;
  entry->error = absl::OkStatus();
  entry->thread = std::thread([this, study, e = entry.get()] { Loop(study, e); });
}

void StudyRunners::Restart(std::int64_t study) {
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(study);
    if (entry != entries_.end()) entry->second->restart = true;
  }
  Start(study);
  notifier_.Notify();
}

void StudyRunners::Loop(std::int64_t study, Entry* entry) {
  while (true) {
    const auto publish = [this, entry](const v1::Recommendation& known) {
      absl::MutexLock lock(&mutex_);
      entry->latest = known;
    };
    entry->restart = false;
    const absl::Status status =
        StudyRun(store_, notifier_, clock_, workers_, study, publish, entry->restart).Run();
    absl::MutexLock lock(&mutex_);
    if (absl::IsCancelled(status) && !stopping_ && !notifier_.closed()) {
      const auto now = store_.GetStudy(study);
      // resumed meanwhile, or to begin anew
      if (now.ok() && now->state() == v1::STUDY_STATE_RUNNING) continue;
    }
    entry->active = false;
    // Reports may have come in after the last look: the store knows best from here on.
    if (!status.ok()) entry->latest.reset();
    if (!status.ok() && !absl::IsCancelled(status)) {
      entry->error = status;
      spdlog::error("{} is not worked on any more: {}", StudyName(study), status.ToString());
    }
    break;
  }
  notifier_.Notify();
}

void StudyRunners::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  notifier_.Close();
  // No entry is added any more, and those that are there stay in place for their threads.
  for (auto& [study, entry] : entries_) {
    if (entry->thread.joinable()) entry->thread.join();
  }
}

std::optional<v1::Recommendation> StudyRunners::Latest(std::int64_t study) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(study);
  return entry == entries_.end() ? std::nullopt : entry->second->latest;
}

absl::Status StudyRunners::Error(std::int64_t study) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(study);
  return entry == entries_.end() ? absl::OkStatus() : entry->second->error;
}

}  // namespace autocfg
