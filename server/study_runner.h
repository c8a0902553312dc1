// Works on running studies: one thread each, which drives the study's search, queues its jobs, waits for
// their reports in the store and keeps the study's row up to date. Thread-safe.
//
// A runner keeps nothing that it cannot get from the store again: when it starts it goes through the stored
// outcomes in the order in which they were observed first, and goes on from there.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/study_service.pb.h"
#include "server/clock.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"
#include "server/study_run.h"

namespace autocfg {

class StudyRunners {
 public:
  // All outlive this object, and what `workers` needs until Stop(); `notifier` is told of every change of the
  // store. `workers`: those at work.
  StudyRunners(Store& store, Notifier& notifier, Clock clock, WorkersAtWork workers);
  ~StudyRunners();  // Stop()

  // Works on a study in state RUNNING from now on, until it is not RUNNING any more. Does nothing where that
  // is so already.
  void Start(std::int64_t study);

  // As Start(); where somebody works on the study already, that begins anew with the stored outcomes: one of
  // them has changed.
  void Restart(std::int64_t study);

  // Ends all threads and closes the notifier; studies keep their state. Idempotent.
  void Stop();

  // What the study's runner in this process last knew; empty when there was none, it knows nothing
  // yet, or it was interrupted. The name and the usage are not filled in.
  std::optional<v1::Recommendation> Latest(std::int64_t study);

  // Why nobody works on a study that is RUNNING: the store failed. OK otherwise.
  absl::Status Error(std::int64_t study);

 private:
  struct Entry {
    std::thread thread;
    bool active = false;
    std::atomic<bool> restart = false;  // what the run under way knows is outdated
    absl::Status error;
    std::optional<v1::Recommendation> latest;
  };
  void Loop(std::int64_t study, Entry* entry);

  Store& store_;
  Notifier& notifier_;
  const Clock clock_;
  const WorkersAtWork workers_;
  absl::Mutex mutex_;
  bool stopping_ = false;
  std::map<std::int64_t, std::unique_ptr<Entry>> entries_;
};

}  // namespace autocfg
