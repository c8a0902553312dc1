#include "worker/jobs/lease_loop.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/os/log_fields.h"
#include "base/os/process.h"
#include "proto/rpc/channel.h"
#include "spdlog/spdlog.h"

namespace autocfg::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPollSeconds = 15;  // how long a call for work is parked
// The same if a notice may come meanwhile, which the coordinator learns of with the next call.
constexpr double kNoticePollSeconds = 2;
constexpr double kFirstLeasePauseSeconds = 0.1;
constexpr double kLongestLeasePauseSeconds = 2;
constexpr double kLongestRefusedPauseSeconds = 10;  // while the coordinator refuses the token
constexpr auto kLookAtJobs = std::chrono::milliseconds(5);

std::string Text(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

LeaseLoop::LeaseLoop(const WorkerCalls& calls, std::string boot_id, const v1::Inventory& inventory,
                     const JobFileRules& files, const std::vector<int>& cores, ProcessLauncher& launcher,
                     const EngineOffer& engines, Departure& departure)
    : calls_(calls),
      boot_id_(std::move(boot_id)),
      inventory_(inventory),
      slots_(static_cast<int>(inventory.slots())),
      departure_(departure),
      setting_{calls,   inventory_, files,
               cores,   slots_,     launcher,
               engines, stopping_,  [this] { polls_.Cancel(); }} {}

absl::Status LeaseLoop::Run(Registration session) {
  session_ = session;
  base::NameThread("lease-loop");
  const base::LogScope scope({.worker = calls_.worker()});
  absl::Status end = TakeWork();
  if (!end.ok()) {
    spdlog::error("{}: another worker has registered under this name; its jobs here are ended ({})",
                  calls_.worker(), Text(end));
    for (const auto& job : Jobs()) job->Lose();
  }
  AwaitJobs();
  if (!end.ok()) return end;
  CallGroup own;
  // A failure is harmless if the coordinator is gone: the next registration releases this worker's leases.
  if (const absl::Status status = calls_.Deregister(session_, own); !status.ok()) {
    spdlog::warn("{}: not deregistered: {}", calls_.worker(), Text(status));
  }
  return absl::OkStatus();
}

// Jobs of a drained worker may take long.
void LeaseLoop::AwaitJobs() {
  for (const auto& job : Jobs()) {
    for (; !job->over(); ++rounds_) {
      if (!stopping_.cancelled() && departure_.MustEndJobs()) {
        spdlog::warn("{}: its time is over; its jobs go back to the queue", calls_.worker());
        Stop();
      }
      std::this_thread::sleep_for(kLookAtJobs);
    }
    job->Wait();
  }
}

void LeaseLoop::Stop() {
  stopping_.Cancel();
  polls_.Cancel();
  for (const auto& job : Jobs()) job->Stop();
}

bool LeaseLoop::TimeIsOver() {
  const std::optional<double> left_s = departure_.SecondsForJobs();
  if (!left_s || *left_s > 0) return false;
  spdlog::info("{}: its time ends; it takes no more work", calls_.worker());
  polls_.Cancel();
  return true;
}

// Returns when no more work is to be taken. FailedPrecondition: another session has this worker's name.
absl::Status LeaseLoop::TakeWork() {
  bool answers = true;   // false: a warning has said otherwise
  bool refused = false;  // the token
  for (double pause_s = kFirstLeasePauseSeconds; !polls_.cancelled() && !TimeIsOver(); ++rounds_) {
    const auto asked = Clock::now();
    const std::optional<double> leaves_in_s = departure_.SecondsForJobs();
    const double wait_s = std::min(departure_.has_file() ? kNoticePollSeconds : kPollSeconds,
                                   leaves_in_s.value_or(kPollSeconds));
    auto response = calls_.LeaseWork(session_, HeldLeases(), wait_s, leaves_in_s, polls_);
    if (response.ok()) {
      if (!std::exchange(answers, true)) spdlog::info("{}: the coordinator answers again", calls_.worker());
      refused = false;
      pause_s = kFirstLeasePauseSeconds;
      if (response->drain()) {
        spdlog::info("{}: drained; it takes no more work", calls_.worker());
        polls_.Cancel();
      }
      if (response->has_job()) {
        Begin(*std::move(response));
      } else if (Clock::now() - asked < std::chrono::duration<double>(kFirstLeasePauseSeconds)) {
        polls_.WaitUntilCancelled(
            kFirstLeasePauseSeconds);  // limits the request rate if the coordinator does not park calls
      }
      continue;
    }
    if (polls_.cancelled()) break;
    if (absl::IsFailedPrecondition(response.status())) return response.status();
    const bool was_refused = std::exchange(refused, IsRefused(response.status()));
    if (absl::IsNotFound(response.status())) {
      RegisterAgain();
    } else if (refused) {
      if (!was_refused) SayRefused(response.status());
      answers = false;
    } else if (std::exchange(answers, false) || was_refused) {
      spdlog::warn("{}: no answer from the coordinator; what runs goes on ({})", calls_.worker(),
                   Text(response.status()));
    }
    calls_.Pause(pause_s, polls_);
    pause_s = std::min(refused ? kLongestRefusedPauseSeconds : kLongestLeasePauseSeconds, pause_s * 2);
  }
  return absl::OkStatus();
}

void LeaseLoop::SayRefused(const absl::Status& status) {
  const std::string& file = calls_.token_file();
  spdlog::warn(
      "{}: the coordinator refuses this worker's token{}; what runs goes on, and reports are kept; {} "
      "({})",
      calls_.worker(), file.empty() ? "" : " of " + file,
      file.empty() ? "start the worker with --token-file"
                   : "write another token to that file, which is read again",
      Text(status));
}

void LeaseLoop::Begin(v1::LeaseWorkResponse lease) {
  absl::MutexLock lock(&mutex_);
  if (stopping_.cancelled()) return;  // deregistering returns the lease
  jobs_.push_back(std::make_shared<RunningJob>(setting_, session_, std::move(lease)));
}

// The coordinator does not know this worker or its leases (any more).
void LeaseLoop::RegisterAgain() {
  for (const auto& job : Jobs()) job->Lose();
  const auto session = calls_.Register(boot_id_, inventory_, polls_);
  if (!session.ok()) {
    spdlog::warn("{}: cannot register again: {}", calls_.worker(), Text(session.status()));
    return;
  }
  spdlog::info("{}: registered again", calls_.worker());
  session_ = *session;
}

std::vector<std::string> LeaseLoop::HeldLeases() {
  std::vector<std::string> held;
  for (const auto& job : Jobs()) {
    if (job->holds_lease()) held.push_back(job->lease_id());
  }
  return held;
}

// Returns the jobs that are not over.
std::vector<std::shared_ptr<RunningJob>> LeaseLoop::Jobs() {
  absl::MutexLock lock(&mutex_);
  std::erase_if(jobs_, [](const auto& job) { return job->over(); });
  return jobs_;
}

}  // namespace autocfg::worker
