#include "server/sched/notifier.h"

namespace autocfg::server {

std::uint64_t Notifier::Version() {
  absl::MutexLock lock(&mutex_);
  return version_;
}

void Notifier::Notify() {
  absl::MutexLock lock(&mutex_);
  ++version_;
}

void Notifier::Wait(std::uint64_t seen, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto over = [this, seen] {
    mutex_.AssertReaderHeld();
    return closed_ || version_ != seen;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&over), timeout);
}

void Notifier::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

bool Notifier::closed() {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

}  // namespace autocfg::server
