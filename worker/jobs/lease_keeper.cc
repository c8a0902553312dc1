#include "worker/jobs/lease_keeper.h"

#include <algorithm>
#include <utility>

#include "proto/rpc/channel.h"

namespace autocfg::worker {
namespace {

using Seconds = std::chrono::duration<double>;

// Needed because a coordinator that drains the worker answers every renewal immediately.
constexpr Seconds kPauseOfDraining{1};

LeaseKeeper::Clock::rep After(LeaseKeeper::Clock::time_point start, Seconds duration) {
  return (start + std::chrono::duration_cast<LeaseKeeper::Clock::duration>(duration))
      .time_since_epoch()
      .count();
}

}  // namespace

LeaseKeeper::LeaseKeeper(Clock::time_point granted, double duration_s, Calls calls, std::atomic<bool>* stop,
                         Seconds patience)
    : duration_(duration_s),
      patience_(patience),
      calls_(std::move(calls)),
      stop_(stop),
      given_up_(After(granted, duration_ + patience_)) {
  thread_ = std::thread([this] { Loop(); });
}

LeaseKeeper::~LeaseKeeper() {
  End();
  thread_.join();
}

void LeaseKeeper::End() {
  ended_ = true;
  ending_.Set();
  calls_.cancel();
}

void LeaseKeeper::Lose() {
  lost_ = true;
  *stop_ = true;
  End();
}

void LeaseKeeper::Loop() {
  const Seconds third = duration_ / 3;
  Seconds wait = third;
  for (;;) {
    const auto asked = Clock::now();
    const Seconds left = Clock::time_point(Clock::duration(given_up_.load())) - asked;
    const auto command = calls_.renew(wait.count(), std::max(left.count(), 0.0));
    Seconds pause = duration_ / 20;  // no reply: retry soon
    if (command.ok()) {
      given_up_ = After(asked, duration_ + patience_);
      // Limits the request rate if the coordinator does not park renewals.
      pause = third - (Clock::now() - asked);
      wait = third;
      if (*command == v1::LEASE_COMMAND_CANCEL) {
        cancelled_ = true;
        *stop_ = true;
        wait = Seconds(0);  // it has no further command
      } else if (*command == v1::LEASE_COMMAND_DRAIN) {
        calls_.drain();
        pause = std::min(pause, kPauseOfDraining);
      }
    } else if (absl::IsFailedPrecondition(command.status()) || absl::IsNotFound(command.status())) {
      lost_ = true;
    } else if (IsRefused(command.status())) {
      pause = third;  // the token; its file may hold another one later
    } else {
      wait = Seconds(0);  // a fast reply matters more than learning of a command early
    }
    if (ended_) return;
    if (lost()) {
      lost_ = true;
      *stop_ = true;
      return;
    }
    ending_.Wait(pause);
    if (ended_) return;
  }
}

}  // namespace autocfg::worker
