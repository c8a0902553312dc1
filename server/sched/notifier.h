// Wakes threads that wait for a study to change: watchers, study runners. Thread-safe.
//
// Call Subscription::Version(), then read the store, then Wait(version): no change in between is missed. A
// change costs as much as the study has subscriptions, however many other studies there are.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

#include "server/store/records.h"

namespace autocfg::server {

class Notifier {
 public:
  // The notifier must outlive it.
  class Subscription {
   public:
    Subscription(Notifier& notifier, std::int64_t study);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

    std::uint64_t Version() const;
    // Returns once the version differs from `seen`, after the timeout, or after Close().
    void Wait(std::uint64_t seen, std::chrono::duration<double> timeout);

   private:
    friend class Notifier;

    Notifier& notifier_;
    const std::int64_t study_;
    std::uint64_t version_ = 0;  // guarded by the notifier's mutex
    std::condition_variable changed_;
  };

  void Notify(std::int64_t study);
  void NotifyAll();  // anything may have changed
  // Notifies those whom a change of the store concerns: all, if the write failed in the storage.
  void StoreChanged(const StoreChange& change);

  // Ends all current and later waits.
  void Close();
  bool closed();

 private:
  // Both require the mutex.
  void NotifyLocked(std::int64_t study);
  void NotifyAllLocked();

  std::mutex mutex_;  // and condition variables of std: they wait by the steady clock
  std::multimap<std::int64_t, Subscription*> subscriptions_;  // by study
  bool closed_ = false;
};

}  // namespace autocfg::server
