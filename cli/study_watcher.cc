#include "cli/study_watcher.h"

#include <utility>

#include "absl/time/time.h"

namespace autocfg {
namespace {

constexpr int kMaxBrokenStreams = 20;  // in a row; with the pause below, some seconds
constexpr absl::Duration kPause = absl::Milliseconds(250);

bool HasEnded(v1::StudyState state) {
  return state == v1::STUDY_STATE_DONE || state == v1::STUDY_STATE_FAILED ||
         state == v1::STUDY_STATE_CANCELLED;
}

}  // namespace

StudyWatcher::StudyWatcher(const std::string& target, std::string study)
    : client_(target), study_name_(std::move(study)) {
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

void StudyWatcher::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void StudyWatcher::Loop() {
  int broken = 0;
  for (;;) {
    grpc::ClientContext context;
    std::int64_t cursor = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      stream_ = &context;
      cursor = cursor_;
    }
    const absl::Status status =
        client_.WatchStudy(context, study_name_, cursor, [&](const v1::StudyEvent& event) {
          absl::MutexLock lock(&mutex_);
          broken = 0;
          cursor_ = event.cursor();
          if (event.has_study()) latest_ = event.study();
        });
    absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    if (HasEnded(latest_.state())) {
      ended_ = true;
      return;
    }
    if (stopping_) return;
    const bool may_pass = status.ok() || absl::IsUnavailable(status);
    if (!may_pass || ++broken > kMaxBrokenStreams) {
      status_ = status.ok() ? absl::UnavailableError("the stream ends before the study does") : status;
      ended_ = true;
      return;
    }
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kPause)) return;
  }
}

}  // namespace autocfg
