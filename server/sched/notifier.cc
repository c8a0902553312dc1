#include "server/sched/notifier.h"

#include <algorithm>

namespace autocfg::server {

Notifier::Subscription::Subscription(Notifier& notifier, std::int64_t study)
    : notifier_(notifier), study_(study) {
  const std::lock_guard lock(notifier_.mutex_);
  notifier_.subscriptions_.emplace(study_, this);
}

Notifier::Subscription::~Subscription() {
  const std::lock_guard lock(notifier_.mutex_);
  const auto [begin, end] = notifier_.subscriptions_.equal_range(study_);
  notifier_.subscriptions_.erase(
      std::find_if(begin, end, [this](const auto& entry) { return entry.second == this; }));
}

std::uint64_t Notifier::Subscription::Version() const {
  const std::lock_guard lock(notifier_.mutex_);
  return version_;
}

void Notifier::Subscription::Wait(std::uint64_t seen, std::chrono::duration<double> timeout) {
  // A longer one would overflow the clock's range.
  constexpr std::chrono::hours kLongest{24};
  std::unique_lock lock(notifier_.mutex_);
  changed_.wait_for(lock, std::min<std::chrono::duration<double>>(timeout, kLongest),
                    [&] { return notifier_.closed_ || version_ != seen; });
}

void Notifier::NotifyLocked(std::int64_t study) {
  const auto [begin, end] = subscriptions_.equal_range(study);
  for (auto at = begin; at != end; ++at) {
    ++at->second->version_;
    at->second->changed_.notify_all();
  }
}

void Notifier::NotifyAllLocked() {
  for (const auto& [study, subscription] : subscriptions_) {
    ++subscription->version_;
    subscription->changed_.notify_all();
  }
}

void Notifier::Notify(std::int64_t study) {
  const std::lock_guard lock(mutex_);
  NotifyLocked(study);
}

void Notifier::NotifyAll() {
  const std::lock_guard lock(mutex_);
  NotifyAllLocked();
}

void Notifier::StoreChanged(const StoreChange& change) {
  const std::lock_guard lock(mutex_);
  if (change.failed) return NotifyAllLocked();
  for (const std::int64_t study : change.studies) NotifyLocked(study);
}

void Notifier::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  NotifyAllLocked();
}

bool Notifier::closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace autocfg::server
