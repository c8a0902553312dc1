#include "cli/study_watcher.h"

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/store.h"

namespace autocfg {
namespace {

constexpr double kPauseSeconds = 0.25;

}  // namespace

StudyWatcher::StudyWatcher(const std::string& target, std::string study, double patience_s,
                           std::function<void(const v1::StudyEvent&)> visit)
    : client_(target), study_name_(std::move(study)), patience_s_(patience_s), visit_(std::move(visit)) {
  latest_.set_name(study_name_);
  thread_ = std::thread([this] { Loop(); });
}

StudyWatcher::~StudyWatcher() { Stop(); }

bool StudyWatcher::WaitForEnd(double seconds) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&ended_), absl::Seconds(seconds));
}

v1::Study StudyWatcher::Latest() {
  absl::MutexLock lock(&mutex_);
  return latest_;
}

absl::Status StudyWatcher::status() {
  absl::MutexLock lock(&mutex_);
  return status_;
}

bool StudyWatcher::Stopping() {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

bool StudyWatcher::Away() {
  absl::MutexLock lock(&mutex_);
  return away_;
}

void StudyWatcher::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void StudyWatcher::Loop() {
  std::optional<absl::Time> broken;  // since when streams have been breaking
  for (;;) {
    grpc::ClientContext context;
    std::int64_t cursor = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      stream_ = &context;
      cursor = cursor_;
    }
    // A stream may say nothing for long; a short call tells whether anybody is there.
    const bool there = client_.GetStudy(study_name_).ok();
    if (there) broken.reset();
    const absl::Status status =
        client_.WatchStudy(context, study_name_, cursor, [&](const v1::StudyEvent& event) {
          broken.reset();
          {
            absl::MutexLock lock(&mutex_);
            cursor_ = event.cursor();
            if (event.has_study()) latest_ = event.study();
            away_ = false;
          }
          if (visit_) visit_(event);
        });
    if (!GoesOn(status, there, broken)) return;
    client_.Pause(kPauseSeconds, [this] { return Stopping(); });
  }
}

// After a stream has ended with `status`: whether another is to follow.
bool StudyWatcher::GoesOn(const absl::Status& status, bool there, std::optional<absl::Time>& broken) {
  absl::MutexLock lock(&mutex_);
  stream_ = nullptr;
  if (IsEnd(latest_.state())) {
    ended_ = true;
    return false;
  }
  if (stopping_) return false;
  // Nobody here has cancelled it: it is the end of a server that is being stopped.
  const bool may_pass = status.ok() || absl::IsUnavailable(status) || absl::IsCancelled(status);
  const absl::Time now = absl::Now();
  if (!broken) broken = now;
  away_ = !there;
  if (!may_pass || now - *broken > absl::Seconds(patience_s_)) {
    status_ = status.ok() ? absl::UnavailableError("the stream ends before the study does") : status;
    ended_ = true;
    return false;
  }
  return true;
}

}  // namespace autocfg
