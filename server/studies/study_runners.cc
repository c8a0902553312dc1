#include "server/studies/study_runners.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/time/time.h"
#include "base/os/log_fields.h"
#include "base/os/trace_parent.h"
#include "fmt/format.h"
#include "server/names/names.h"
#include "server/studies/study_states.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

using std::chrono::steady_clock;

// Number of ended studies whose recommendation is kept. Clients that followed a study ask for it at once, and
// recomputing it is slow with many plans.
constexpr std::size_t kAnswersKept = 16;

// Returns true if the storage may recover without intervention.
bool MayPass(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) || absl::IsInternal(status);
}

}  // namespace

StudyRunners::StudyRunners(Store& store, Notifier& notifier, base::Clock clock, PresentWorkers workers,
                           StudyRunnersOptions options)
    : store_(store),
      notifier_(notifier),
      clock_(std::move(clock)),
      workers_(std::move(workers)),
      options_(std::move(options)),
      keeper_([this] { Keep(); }) {}

StudyRunners::~StudyRunners() { Stop(); }

void StudyRunners::Start(std::int64_t study) {
  const auto stored = store_.GetStudy(study);  // its run reports an error
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  std::unique_ptr<Entry>& entry = entries_[study];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
    if (stored.ok()) entry->owner = stored->owner();
  }
  entry->error = absl::OkStatus();  // clears the error of an earlier run
  // The runner rereads the study's state under the mutex before it ends.
  if (entry->stage == Stage::kAtWork) return;
  if (entry->stage == Stage::kOver) {
    entry->turn = ++turns_;
    std::erase(ended_, study);
  }
  entry->stage = Stage::kDue;
  entry->not_before = SteadyTime::min();
  changed_ = true;
}

void StudyRunners::Restart(std::int64_t study) {
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(study);
    if (entry != entries_.end()) entry->second->restart = true;
  }
  Start(study);
  notifier_.Notify(study);
}

void StudyRunners::Forget(std::int64_t study) {
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(study);
  if (entry == entries_.end()) return;
  if (entry->second->stage == Stage::kAtWork) {
    // The run detects the change itself and removes the entry; planning learns of it here.
    entry->second->restart = true;
    return;
  }
  const auto now = store_.GetStudy(study);
  // The study was resumed meanwhile.
  if (now.ok() ? now->state() == v1::STUDY_STATE_RUNNING : !absl::IsNotFound(now.status())) return;
  std::erase(ended_, study);
  entries_.erase(entry);
}

void StudyRunners::Keep() {
  mutex_.Lock();
  while (true) {
    changed_ = false;
    const std::optional<SteadyTime> next = stopping_ ? std::nullopt : StartDue();
    std::vector<std::thread> leaving = std::exchange(leaving_, {});
    if (!leaving.empty()) {
      mutex_.Unlock();
      for (std::thread& thread : leaving) thread.join();
      mutex_.Lock();
      continue;
    }
    if (stopping_ && at_work_ == 0) break;
    const absl::Duration wait =
        next ? absl::FromChrono(std::max(*next - steady_clock::now(), steady_clock::duration::zero()))
             : absl::InfiniteDuration();
    mutex_.AwaitWithTimeout(absl::Condition(&changed_), wait);
  }
  mutex_.Unlock();
}

std::size_t StudyRunners::AtWork(const std::string& owner) const {
  const auto own = at_work_of_.find(owner);
  return own == at_work_of_.end() ? 0 : own->second;
}

std::size_t StudyRunners::PlacesOf(const std::string& owner) const {
  const std::size_t others = at_work_ - AtWork(owner);
  return others >= options_.at_once ? 0 : (options_.at_once - others + 1) / 2;
}

std::optional<StudyRunners::SteadyTime> StudyRunners::StartDue() {
  while (true) {
    const SteadyTime now = steady_clock::now();
    std::optional<SteadyTime> next;
    std::pair<const std::int64_t, std::unique_ptr<Entry>>* first = nullptr;
    std::size_t first_at_work = 0;  // of its owner
    for (auto& known : entries_) {
      const Entry& entry = *known.second;
      if (entry.stage != Stage::kDue) continue;
      if (entry.not_before > now) {
        next = std::min(next.value_or(entry.not_before), entry.not_before);
        continue;
      }
      const std::size_t at_work = AtWork(entry.owner);
      if (at_work >= PlacesOf(entry.owner)) continue;
      if (first != nullptr &&
          std::pair(at_work, entry.turn) >= std::pair(first_at_work, first->second->turn)) {
        continue;
      }
      first = &known;
      first_at_work = at_work;
    }
    if (first == nullptr || at_work_ >= options_.at_once) return next;
    if (thread_after_ > now) return std::min(next.value_or(thread_after_), thread_after_);
    if (GiveThread(first->first, *first->second)) continue;
    notifier_.NotifyAll();
  }
}

bool StudyRunners::GiveThread(std::int64_t study, Entry& entry) {
  const base::LogScope scope({.study = StudyName(study)});
  try {
    // The new thread takes the mutex before it ends, so it finds the entry complete.
    entry.thread = options_.new_thread([this, study, e = &entry] { Work(study, e); });
  } catch (const std::system_error& error) {
    thread_pause_ = After(thread_pause_);
    thread_after_ = steady_clock::now() + thread_pause_;
    if (no_thread_.empty()) {
      spdlog::error("{} and all later studies wait: cannot create a thread ({}); retrying", StudyName(study),
                    error.what());
    }
    no_thread_ = error.what();
    return false;
  }
  if (!no_thread_.empty()) spdlog::info("{} continues: a thread is available again", StudyName(study));
  no_thread_.clear();
  thread_pause_ = {};
  entry.stage = Stage::kAtWork;
  ++at_work_;
  ++at_work_of_[entry.owner];
  return true;
}

std::chrono::milliseconds StudyRunners::After(std::chrono::milliseconds pause) const {
  return std::clamp(2 * pause, options_.shortest_pause, options_.longest_pause);
}

void StudyRunners::Work(std::int64_t study, Entry* entry) {
  const auto stored = store_.GetStudy(study);
  const base::LogScope scope(
      {.study = StudyName(study), .trace = stored.ok() ? base::TraceOf(stored->trace_parent()) : ""});
  const auto publish = [this, entry](const v1::Recommendation& known) {
    absl::MutexLock lock(&mutex_);
    entry->latest = known;
  };
  const auto begins = [&] {
    absl::MutexLock lock(&mutex_);
    if (!entry->failed) LogState(study, v1::STUDY_STATE_RUNNING, "");
  };
  while (true) {
    entry->restart = false;
    absl::Status status =
        StudyRun(store_, notifier_, gate_, clock_, workers_, study,
                 {.begins = begins, .publish = publish, .got_on = [&] { GotOn(study, *entry); }},
                 entry->restart, options_.most_planning_s)
            .Run();
    GiveBackFreedMemory();
    absl::MutexLock lock(&mutex_);
    if (absl::IsCancelled(status) && !stopping_ && !notifier_.closed()) {
      const auto now = store_.GetStudy(study);
      // The study was resumed meanwhile, or its run must start over.
      if (now.ok() && now->state() == v1::STUDY_STATE_RUNNING) continue;
      if (!now.ok() && !absl::IsNotFound(now.status())) status = now.status();
    }
    Settle(study, *entry, status);
    break;
  }
  notifier_.NotifyAll();  // the turn of others may have come
}

void StudyRunners::GotOn(std::int64_t study, Entry& entry) {
  {
    absl::MutexLock lock(&mutex_);
    if (!entry.well_since) entry.well_since = steady_clock::now();
    if (!std::exchange(entry.failed, false)) return;
    entry.error = absl::OkStatus();
    spdlog::info("{} continues: its storage works again", StudyName(study));
  }
  notifier_.Notify(study);
}

void StudyRunners::Settle(std::int64_t study, Entry& entry, const absl::Status& status) {
  leaving_.push_back(std::move(entry.thread));
  --at_work_;
  if (--at_work_of_[entry.owner] == 0) at_work_of_.erase(entry.owner);
  changed_ = true;
  entry.stage = Stage::kOver;
  if (absl::IsCancelled(status)) {
    entries_.erase(study);
    return;
  }
  if (status.ok()) {
    entry.error = absl::OkStatus();
    entry.failed = false;
    ended_.push_back(study);
    if (ended_.size() <= kAnswersKept) return;
    entries_.erase(ended_.front());
    ended_.pop_front();
    return;
  }
  // Reports may have arrived after the last read; from now on only the store is up to date.
  entry.latest.reset();
  entry.error = status;
  if (MayPass(status) && !stopping_) {
    WaitForStorage(study, entry, status);
  } else {
    spdlog::error("{} cannot continue: {}", StudyName(study),
                  status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  }
}

void StudyRunners::WaitForStorage(std::int64_t study, Entry& entry, const absl::Status& status) {
  const SteadyTime now = steady_clock::now();
  if (entry.well_since && now - *entry.well_since >= options_.longest_pause) entry.pause = {};
  entry.well_since.reset();
  entry.pause = After(entry.pause);
  entry.stage = Stage::kDue;
  entry.turn = ++turns_;
  entry.not_before = now + entry.pause;
  if (std::exchange(entry.failed, true)) return;
  spdlog::error("{} waits for its storage; retrying: {}", StudyName(study),
                status.ToString(absl::StatusToStringMode::kWithNoExtraData));
}

void StudyRunners::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_ = true;
  }
  notifier_.Close();
  if (keeper_.joinable()) keeper_.join();
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

std::string StudyRunners::Waiting(std::int64_t study) {
  absl::MutexLock lock(&mutex_);
  const auto known = entries_.find(study);
  if (known == entries_.end()) return "";
  const Entry& entry = *known->second;
  if (!entry.error.ok()) return std::string(entry.error.message());
  if (entry.stage != Stage::kDue) return "";
  if (at_work_ >= options_.at_once) {
    return fmt::format(
        "{} other studies are running, the most that this coordinator runs at once: its turn comes when one "
        "of them ends or is paused",
        at_work_);
  }
  if (const std::size_t own = AtWork(entry.owner); own >= PlacesOf(entry.owner)) {
    return fmt::format(
        "{} other stud{} of its owner {} running, the most that this coordinator runs at once of one owner "
        "now: its turn comes when one of them ends or is paused",
        own, own == 1 ? "y" : "ies", own == 1 ? "is" : "are");
  }
  if (no_thread_.empty()) return "";
  return fmt::format("the coordinator cannot create a thread for it ({}); it retries automatically",
                     no_thread_);
}

}  // namespace autocfg::server
