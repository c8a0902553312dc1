// Calls that wait for an answer, at most one per key, each with a deadline. Not thread-safe; the owner guards
// it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace autocfg::server {

// Deadlines go by the steady clock, which nobody steps.
using SteadyTime = std::chrono::steady_clock::time_point;
inline SteadyTime SteadyNow() { return std::chrono::steady_clock::now(); }
inline SteadyTime SteadyIn(absl::Duration wait) { return SteadyNow() + absl::ToChronoNanoseconds(wait); }

// Identifies a parked call; never reused. 0: the call was answered immediately.
using CallId = std::uint64_t;

// The answer to every parked call while the coordinator shuts down.
inline absl::Status CoordinatorClosing() {
  return absl::UnavailableError("the coordinator is shutting down; call again later");
}

// Answers that are decided under a lock, and given when this object goes. Declare it before the lock, so that
// the lock is released by then.
class Answers {
 public:
  Answers() = default;
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() {
    for (const auto& give : answers_) give();
  }

  template <typename Answer, typename Value>
  void Add(Answer answer, Value value) {
    answers_.push_back([answer = std::move(answer), value = std::move(value)] { answer(value); });
  }

 private:
  std::vector<std::function<void()>> answers_;
};

template <typename Key, typename Call>
class ParkedCalls {
 public:
  struct Placed {
    CallId id = 0;
    std::optional<Call> displaced;  // the previous call with the same key
  };
  Placed Put(const Key& key, Call call, SteadyTime deadline) {
    Placed placed{.id = ++last_id_, .displaced = Take(key)};
    calls_.emplace(key, Entry{placed.id, deadline, std::move(call)});
    keys_.emplace(placed.id, key);
    return placed;
  }

  // Each function removes what it returns.
  std::optional<Call> Take(const Key& key) {
    const auto at = calls_.find(key);
    if (at == calls_.end()) return std::nullopt;
    std::optional<Call> call(std::move(at->second.call));
    keys_.erase(at->second.id);
    calls_.erase(at);
    return call;
  }
  std::optional<Call> TakeById(CallId id) {
    const auto at = keys_.find(id);
    if (at == keys_.end()) return std::nullopt;
    const Key key = at->second;
    return Take(key);
  }
  template <typename Predicate>
  std::vector<Call> TakeIf(Predicate predicate) {
    std::vector<Key> keys;
    for (const auto& [key, entry] : calls_) {
      if (predicate(entry.call, entry.deadline)) keys.push_back(key);
    }
    std::vector<Call> taken;
    taken.reserve(keys.size());
    for (const Key& key : keys) taken.push_back(*Take(key));
    return taken;
  }
  std::vector<Call> TakeDue(SteadyTime now) {
    return TakeIf([now](const Call&, SteadyTime deadline) { return deadline <= now; });
  }
  std::vector<Call> TakeAll() {
    return TakeIf([](const Call&, SteadyTime) { return true; });
  }

  const Call* Find(const Key& key) const {
    const auto at = calls_.find(key);
    return at == calls_.end() ? nullptr : &at->second.call;
  }
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [key, entry] : calls_) visit(key, entry.call);
  }
  // SteadyTime::max() if there are no calls.
  SteadyTime NextDeadline() const {
    SteadyTime next = SteadyTime::max();
    for (const auto& [key, entry] : calls_) next = std::min(next, entry.deadline);
    return next;
  }
  void Postpone(absl::Duration by) {
    for (auto& [key, entry] : calls_) entry.deadline += absl::ToChronoNanoseconds(by);
  }
  bool empty() const { return calls_.empty(); }
  std::size_t size() const { return calls_.size(); }

 private:
  struct Entry {
    CallId id = 0;
    SteadyTime deadline;
    Call call;
  };
  CallId last_id_ = 0;
  std::map<Key, Entry> calls_;
  std::map<CallId, Key> keys_;
};

}  // namespace autocfg::server
