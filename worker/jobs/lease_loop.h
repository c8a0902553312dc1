// Main loop of a registered worker: keeps one call for work parked at the coordinator and runs the jobs it
// gets, until it is stopped, drained or superseded. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/engines/engine_file.h"
#include "worker/jobs/departure.h"
#include "worker/jobs/job_files.h"
#include "worker/jobs/running_job.h"
#include "worker/jobs/slots.h"
#include "worker/jobs/worker_calls.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::worker {

class LeaseLoop {
 public:
  // All references must outlive this object. `boot_id` is used when the worker registers again.
  LeaseLoop(const WorkerCalls& calls, std::string boot_id, const v1::Inventory& inventory,
            const JobFileRules& files, const std::vector<int>& cores, ProcessLauncher& launcher,
            const EngineOffer& engines, Departure& departure);

  // Call once. Returns OK if stopped, drained or at the end of its time (and deregistered),
  // FailedPrecondition if another worker registered under this name. No job runs after it returns.
  absl::Status Run(Registration session);

  // Number of rounds of Run's loop. Grows several times a minute, also while the coordinator does not answer,
  // unless the loop is stuck.
  std::uint64_t rounds() const { return rounds_; }

  // Ends Run and its jobs, including their processes. Idempotent.
  void Stop();

 private:
  absl::Status TakeWork();
  bool TimeIsOver();  // for more jobs
  void AwaitJobs();
  void Begin(v1::LeaseWorkResponse lease);
  void RegisterAgain();
  void SayRefused(const absl::Status& status);
  std::vector<std::string> HeldLeases();
  std::vector<std::shared_ptr<RunningJob>> Jobs();

  const WorkerCalls& calls_;
  const std::string boot_id_;
  const v1::Inventory& inventory_;
  SlotPool slots_;
  CallGroup stopping_;  // Stop()
  CallGroup polls_;     // cancelled when the worker takes no more work
  Departure& departure_;
  const JobSetting setting_;
  std::atomic<std::uint64_t> rounds_{0};
  Registration session_;  // used only by Run's thread
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<RunningJob>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace autocfg::worker
