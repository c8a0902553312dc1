// Tells the coordinator how far a job is, from a thread of its own, so that the job never waits for the
// network. Sends the newest value only, at most once a second. What cannot be delivered is dropped: a later
// value replaces it, and nothing depends on it. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "autocfg/v1/trainer.pb.h"

namespace autocfg::worker {

class ProgressSender {
 public:
  // `send` delivers one value, within seconds. `cancel` ends a call of `send` in flight, and each later one.
  ProgressSender(std::function<void(const v1::Progress&)> send, std::function<void()> cancel);
  ~ProgressSender();  // drops what is not sent yet

  void Set(const v1::Progress& progress);

 private:
  void Loop();

  const std::function<void(const v1::Progress&)> send_;
  const std::function<void()> cancel_;
  std::mutex mutex_;  // and a condition variable of std: it waits by the steady clock
  std::condition_variable changed_;
  std::optional<v1::Progress> next_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace autocfg::worker
