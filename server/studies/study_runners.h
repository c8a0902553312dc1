// Runs studies: one thread per running study drives its search, queues its jobs, waits for their reports in
// the store and updates the study's row. Thread-safe.
//
// StudyRunners (threads) > StudyRun (one run; source of outcomes) > StudySearch (drives) > SearchLoop
// (decides).
//
// A runner keeps no state that the store cannot restore. It starts by replaying the stored outcomes in their
// original order. So after a storage failure that may pass (no space, a failed read or write), a runner waits
// and starts over.
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
#include "base/os/host.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"
#include "server/studies/study_run.h"

namespace autocfg::server {

struct StudyRunnersOptions {
  // Maximum number of concurrent studies; more wait. An owner has at most half of the places that others
  // leave, rounded up, so that there is one for the studies of another owner. The next place is for the owner
  // with the fewest studies at work; of one owner, for the study that was started first.
  std::size_t at_once = 512;
  // Maximum number of studies that plan at once. Planning takes a core and up to 100 MB.
  int plan_at_once = 2;
  // Maximum CPU seconds of the thread that plans a study. The largest spaces take tens of seconds: they are
  // cut off (PlanningBudget).
  double most_planning_s = 300;
  // Backoff of a study after a storage failure, and of all waiting studies if no thread can be created. The
  // pause doubles each time.
  std::chrono::milliseconds shortest_pause{1'000};
  std::chrono::milliseconds longest_pause{30'000};
  // Throws std::system_error if no thread can be created.
  std::function<std::thread(std::function<void()>)> new_thread = [](std::function<void()> body) {
    return std::thread(std::move(body));
  };
};

class StudyRunners {
 public:
  // All references must outlive this object; what `workers` uses must remain valid until Stop(). `notifier`
  // must be notified of every change of the store. `workers` returns the workers at work.
  StudyRunners(Store& store, Notifier& notifier, base::Clock clock, PresentWorkers workers,
               StudyRunnersOptions options = {});
  ~StudyRunners();  // calls Stop()

  // Runs a RUNNING study, as soon as its turn comes, until it is no longer RUNNING. Ends a wait for the
  // storage. Does nothing if the study already runs.
  void Start(std::int64_t study);

  // Same as Start(). If the study already runs, its run starts over, because a stored outcome has changed.
  void Restart(std::int64_t study);

  // Drops the state of a study that was deleted, paused or cancelled. If it is being planned, planning ends.
  void Forget(std::int64_t study);

  // Ends all threads and closes the notifier. Studies keep their state. Idempotent.
  void Stop();

  // Returns the last recommendation of the study's runner in this process, without name and usage. Returns
  // nullopt if there is none yet, the run was interrupted, or many studies have ended since.
  std::optional<v1::Recommendation> Latest(std::int64_t study);

  // Returns the store's error that keeps a RUNNING study from running; else OK.
  absl::Status Error(std::int64_t study);

  // Same, or why its turn has not come, as a sentence for users. Empty if the study runs.
  std::string Waiting(std::int64_t study);

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  enum class Stage {
    kDue,     // will run, from `not_before` on
    kAtWork,  // running; `thread` is set
    kOver,    // ended, or its storage failed permanently
  };
  struct Entry {
    std::string owner;
    Stage stage = Stage::kOver;
    std::thread thread;
    std::int64_t turn = 0;
    SteadyTime not_before;
    std::chrono::milliseconds pause{0};    // last backoff
    std::optional<SteadyTime> well_since;  // start of the current run's trouble-free time
    bool failed = false;                   // storage failed, and no progress since
    std::atomic<bool> restart = false;     // the current run is outdated; ends its planning too
    absl::Status error;
    std::optional<v1::Recommendation> latest;
  };

  void Keep();  // main loop of the keeper thread
  // Returns how many studies of an owner may be at work at once now.
  std::size_t PlacesOf(const std::string& owner) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::size_t AtWork(const std::string& owner) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Starts a thread for each due study. Returns when to check again if nothing happens before.
  std::optional<SteadyTime> StartDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns false if no thread could be created.
  bool GiveThread(std::int64_t study, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(std::int64_t study, Entry* entry);  // main function of a runner thread
  void GotOn(std::int64_t study, Entry& entry);
  void Settle(std::int64_t study, Entry& entry, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForStorage(std::int64_t study, Entry& entry, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::chrono::milliseconds After(std::chrono::milliseconds pause) const;

  Store& store_;
  Notifier& notifier_;
  const base::Clock clock_;
  const PresentWorkers workers_;
  const StudyRunnersOptions options_;
  PlanningGate gate_{options_.plan_at_once};
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // wakes the keeper
  // Pointers, because threads refer to their entries.
  std::map<std::int64_t, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  std::size_t at_work_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::size_t> at_work_of_ ABSL_GUARDED_BY(mutex_);  // by owner; those that have any
  std::int64_t turns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::int64_t> ended_ ABSL_GUARDED_BY(mutex_);    // ended studies whose recommendation is kept
  std::vector<std::thread> leaving_ ABSL_GUARDED_BY(mutex_);  // ended threads, which the keeper joins
  std::string no_thread_ ABSL_GUARDED_BY(mutex_);             // reason of the last failure to create a thread
  std::chrono::milliseconds thread_pause_ ABSL_GUARDED_BY(mutex_){0};
  SteadyTime thread_after_ ABSL_GUARDED_BY(mutex_);
  std::thread keeper_;
};

}  // namespace autocfg::server
