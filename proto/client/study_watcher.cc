#include "proto/client/study_watcher.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/numbers.h"
#include "proto/client/study_client.h"
#include "proto/rpc/endpoint.h"

namespace autocfg {
namespace {

constexpr double kPauseSeconds = 0.25;
constexpr double kRefusedPauseSeconds = 1;

bool HasEnded(v1::StudyState state) {
  return state == v1::STUDY_STATE_DONE || state == v1::STUDY_STATE_FAILED ||
         state == v1::STUDY_STATE_CANCELLED;
}

// Returns 7 of "studies/3/trials/7".
std::optional<std::int64_t> TrialNumber(std::string_view name) {
  return base::ParseNumber<std::int64_t>(name.substr(name.rfind('/') + 1));
}

}  // namespace

StudyWatcher::StudyWatcher(const std::string& target, std::string study, double patience_s,
                           std::function<void(const v1::StudyEvent&)> visit)
    : StudyWatcher(Endpoint{.target = target}, std::move(study), patience_s, std::move(visit)) {}

StudyWatcher::StudyWatcher(const Endpoint& endpoint, std::string study, double patience_s,
                           std::function<void(const v1::StudyEvent&)> visit)
    : client_(std::make_unique<StudyClient>(endpoint)),
      study_name_(std::move(study)),
      patience_s_(patience_s),
      visit_(std::move(visit)) {
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

std::vector<v1::Trial> StudyWatcher::Running() {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::Trial> trials;
  trials.reserve(running_.size());
  for (const auto& [number, trial] : running_) trials.push_back(trial);
  return trials;
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

std::string StudyWatcher::Refused() {
  absl::MutexLock lock(&mutex_);
  return refused_;
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
  std::optional<absl::Time> broken;  // time since which streams have been failing
  for (;;) {
    grpc::ClientContext context;
    std::int64_t cursor = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      stream_ = &context;
      cursor = cursor_;
    }
    // A stream may be silent for long; a short call shows whether the coordinator answers.
    const absl::StatusOr<v1::Study> known = client_->GetStudy(study_name_);
    if (known.ok()) broken.reset();
    const absl::Status status =
        client_->WatchStudy(context, study_name_, cursor, [&](const v1::StudyEvent& event) {
          broken.reset();
          {
            absl::MutexLock lock(&mutex_);
            cursor_ = event.cursor();
            if (event.has_study()) latest_ = event.study();
            if (const auto number = TrialNumber(event.trial().name()); event.has_trial() && number) {
              if (event.trial().state() == v1::TRIAL_STATE_RUNNING) {
                running_[*number] = event.trial();
              } else {
                running_.erase(*number);
              }
            }
            away_ = false;
            refused_.clear();
          }
          if (visit_) visit_(event);
        });
    if (!GoesOn(status, known, broken)) return;
    client_->Pause(Refused().empty() ? kPauseSeconds : kRefusedPauseSeconds, [this] { return Stopping(); });
  }
}

// Decides whether to open another stream after one ended with `status`. `known` is the result of the GetStudy
// call before that stream.
bool StudyWatcher::GoesOn(const absl::Status& status, const absl::StatusOr<v1::Study>& known,
                          std::optional<absl::Time>& broken) {
  absl::MutexLock lock(&mutex_);
  stream_ = nullptr;
  // The server has no room for the stream. If the study itself had no room, its `waiting` text would say so.
  const bool exhausted = absl::IsResourceExhausted(status) && latest_.waiting() != status.message();
  refused_ = exhausted && known.ok() ? std::string(status.message()) : "";
  if (!refused_.empty()) {
    latest_ = *known;
    running_.clear();  // its trials are not polled
  }
  // A caller with a `visit` function needs another stream, which also delivers the last events.
  if (HasEnded(latest_.state()) && (refused_.empty() || visit_ == nullptr)) {
    ended_ = true;
    return false;
  }
  if (stopping_) return false;
  // This client did not cancel the stream: the server is shutting down.
  // A token that ended while the stream ran may have been replaced in its file: another stream shows that.
  const bool token_ended = absl::IsUnauthenticated(status) && known.ok();
  const bool may_pass =
      status.ok() || absl::IsUnavailable(status) || absl::IsCancelled(status) || exhausted || token_ended;
  const absl::Time now = absl::Now();
  if (!broken) broken = now;
  away_ = !known.ok();
  if (!may_pass || now - *broken > absl::Seconds(patience_s_)) {
    status_ = status.ok() ? absl::UnavailableError("the stream ended before the study") : status;
    ended_ = true;
    return false;
  }
  return true;
}

}  // namespace autocfg
