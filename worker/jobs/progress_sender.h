// Tells the coordinator how far a job is, and what a calibration has timed so far, from a thread of its own,
// so that the job never waits for the network. Sends at most once a second: of the progress the newest value,
// of the op times all that were not delivered yet. Nothing depends on them while the job runs. Thread-safe.
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
  // Delivers progress, and op times if there are any, within seconds. Returns false if they must be sent
  // again.
  using Send = std::function<bool(const v1::Progress&, const v1::CalibrateResult& timed)>;

  // `cancel` ends a call of `send` in flight, and each later one.
  ProgressSender(Send send, std::function<void()> cancel);
  ~ProgressSender();  // drops what is not sent yet

  void Set(const v1::Progress& progress);
  // Adds op times to those of the next call. They are sent with the next progress.
  void Add(const v1::CalibrateResult& timed);

 private:
  void Loop();

  const Send send_;
  const std::function<void()> cancel_;
  std::mutex mutex_;  // and a condition variable of std: it waits by the steady clock
  std::condition_variable changed_;
  std::optional<v1::Progress> next_;
  v1::CalibrateResult timed_;  // not delivered yet
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace autocfg::worker
