// Notes while a training run has not ended its first step, which may take minutes. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace autocfg::cli {

// A note after every interval on standard error, until End: what runs, and for how long no step has ended.
class FirstStepWait {
 public:
  static constexpr std::chrono::milliseconds kEvery{10'000};

  // Says nothing unless `speaks`. `what`: what runs, for the first note.
  FirstStepWait(bool speaks, std::string what, std::chrono::milliseconds every = kEvery);
  ~FirstStepWait() { End(); }
  FirstStepWait(const FirstStepWait&) = delete;
  FirstStepWait& operator=(const FirstStepWait&) = delete;

  // Idempotent; returns once no further note can come.
  void End();

 private:
  void Speak(const std::string& what, std::chrono::milliseconds every);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace autocfg::cli
