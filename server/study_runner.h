// Works on running studies: a thread for each, which drives the study's search, queues its jobs, waits for
// their reports in the store and keeps the study's row up to date. Thread-safe.
//
// A runner keeps nothing that it cannot get from the store again: when it starts it goes through the stored
// outcomes in the order in which they were observed first, and goes on from there. So one whose storage
// failed in a way that may pass (no room, a failed read or write) waits, and begins anew.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/study_service.pb.h"
#include "server/clock.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"
#include "server/study_run.h"

namespace autocfg {

struct StudyRunnersOptions {
  // Studies that are worked on at once; more wait their turn, in the order in which they were started.
  std::size_t at_once = 256;
  // How long a study waits whose storage failed, and all that wait for a thread where none can be had: twice
  // as long each time.
  std::chrono::milliseconds shortest_pause{1'000};
  std::chrono::milliseconds longest_pause{30'000};
  // Throws std::system_error where there are no more.
  std::function<std::thread(std::function<void()>)> new_thread = [](std::function<void()> body) {
    return std::thread(std::move(body));
  };
};

class StudyRunners {
 public:
  // All outlive this object, and what `workers` needs until Stop(); `notifier` is told of every change of the
  // store. `workers`: those at work.
  StudyRunners(Store& store, Notifier& notifier, Clock clock, WorkersAtWork workers,
               StudyRunnersOptions options = {});
  ~StudyRunners();  // Stop()

  // Works on a study in state RUNNING from now on, or as soon as it is its turn, until it is not RUNNING any
  // more. Ends a wait for the storage. Does nothing where somebody works on it already.
  void Start(std::int64_t study);

  // As Start(); where somebody works on the study already, that begins anew with the stored outcomes: one of
  // them has changed.
  void Restart(std::int64_t study);

  // Drops what is kept of a study that is there no more, or that was paused or cancelled.
  void Forget(std::int64_t study);

  // Ends all threads and closes the notifier; studies keep their state. Idempotent.
  void Stop();

  // What the study's runner in this process last knew; empty when there was none, it knows nothing
  // yet, it was interrupted, or many studies have ended since. The name and the usage are not filled in.
  std::optional<v1::Recommendation> Latest(std::int64_t study);

  // Why nobody works on a study that is RUNNING: the store failed. OK otherwise.
  absl::Status Error(std::int64_t study);

  // The same, or why its turn has not come, in a sentence for users; empty where somebody works on it.
  std::string Waiting(std::int64_t study);

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  enum class Stage {
    kDue,     // to be worked on, from `not_before` on
    kAtWork,  // `thread` is there
    kOver,    // ended, or its storage failed for good
  };
  struct Entry {
    Stage stage = Stage::kOver;
    std::thread thread;
    std::int64_t turn = 0;
    SteadyTime not_before;
    std::chrono::milliseconds pause{0};    // the last one
    std::optional<SteadyTime> well_since;  // that it got on, while it is at work
    bool failed = false;                   // and has not got on since
    std::atomic<bool> restart = false;     // what the run under way knows is outdated
    absl::Status error;
    std::optional<v1::Recommendation> latest;
  };

  void Keep();  // the keeper's loop
  // Gives those that are due a thread each; when to look again, if nothing happens before.
  std::optional<SteadyTime> StartDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there was one.
  bool GiveThread(std::int64_t study, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(std::int64_t study, Entry* entry);  // the runner's
  void GotOn(std::int64_t study, Entry& entry);
  void Settle(std::int64_t study, Entry& entry, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForStorage(std::int64_t study, Entry& entry, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::chrono::milliseconds After(std::chrono::milliseconds pause) const;

  Store& store_;
  Notifier& notifier_;
  const Clock clock_;
  const WorkersAtWork workers_;
  const StudyRunnersOptions options_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // there is something for the keeper to do
  // Entries stay in place for their threads.
  std::map<std::int64_t, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  std::size_t at_work_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t turns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::int64_t> ended_ ABSL_GUARDED_BY(mutex_);    // studies that ended, whose answer is kept
  std::vector<std::thread> leaving_ ABSL_GUARDED_BY(mutex_);  // that the keeper joins
  std::string no_thread_ ABSL_GUARDED_BY(mutex_);             // why there was none
  std::chrono::milliseconds thread_pause_ ABSL_GUARDED_BY(mutex_){0};
  SteadyTime thread_after_ ABSL_GUARDED_BY(mutex_);
  std::thread keeper_;
};

}  // namespace autocfg
