#include "worker/lease_keeper.h"

#include <utility>

#include "absl/time/time.h"

namespace autocfg {
namespace {

LeaseKeeper::Clock::rep After(LeaseKeeper::Clock::time_point start, std::chrono::duration<double> duration) {
  return (start + std::chrono::duration_cast<LeaseKeeper::Clock::duration>(duration))
      .time_since_epoch()
      .count();
}

}  // namespace

LeaseKeeper::LeaseKeeper(Clock::time_point granted, double duration_s, Renew renew, std::atomic<bool>* stop)
    : duration_(duration_s), renew_(std::move(renew)), stop_(stop), expires_(After(granted, duration_)) {
  thread_ = std::thread([this] { Loop(); });
}

LeaseKeeper::~LeaseKeeper() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void LeaseKeeper::Loop() {
  absl::Duration pause = absl::Seconds(duration_.count()) / 3;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&ending_), pause)) return;
    }
    pause = absl::Seconds(duration_.count()) / 3;
    const auto asked = Clock::now();
    const auto command = renew_();
    if (command.ok()) {
      expires_ = After(asked, duration_);
      if (*command == v1::LEASE_COMMAND_CANCEL) {
        cancelled_ = true;
        *stop_ = true;
      }
    } else if (absl::IsFailedPrecondition(command.status()) || absl::IsNotFound(command.status())) {
      lost_ = true;
    } else {
      pause /= 3;  // no answer: again, sooner
    }
    if (lost()) {
      lost_ = true;
      *stop_ = true;
      return;
    }
  }
}

}  // namespace autocfg
