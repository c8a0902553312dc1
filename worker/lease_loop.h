// A registered worker's life: asks for work, with one call always parked at the coordinator, and runs what it
// gets until it is stopped, drained or superseded. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/process_launcher.h"
#include "worker/running_job.h"
#include "worker/slot_pool.h"
#include "worker/worker_calls.h"

namespace autocfg {

class LeaseLoop {
 public:
  // All outlive it. `boot_id`: with which the worker registers again.
  LeaseLoop(const WorkerCalls& calls, std::string boot_id, const v1::Inventory& inventory,
            const std::vector<int>& cores, ProcessLauncher& launcher);

  // Once. OK: stopped or drained, and deregistered; FailedPrecondition: another worker has registered under
  // this name. No job runs any more.
  absl::Status Run(Registration session);

  // Ends Run, and its jobs with their processes. Idempotent.
  void Stop();

 private:
  absl::Status TakeWork();
  void Begin(v1::LeaseWorkResponse lease);
  void RegisterAgain();
  std::vector<std::string> HeldLeases();
  std::vector<std::shared_ptr<RunningJob>> Jobs();

  const WorkerCalls& calls_;
  const std::string boot_id_;
  const v1::Inventory& inventory_;
  SlotPool slots_;
  CallGroup stopping_;  // Stop()
  CallGroup polls_;     // ended when no more work is taken
  const JobSetting setting_;
  Registration session_;  // of Run's thread
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<RunningJob>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace autocfg
