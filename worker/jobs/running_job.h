// A leased job, or a share of one, from its lease to its report, in its own thread. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/jobs/job_files.h"
#include "worker/jobs/job_runner.h"
#include "worker/jobs/lease_keeper.h"
#include "worker/jobs/slots.h"
#include "worker/jobs/worker_calls.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::worker {

// Shared by all jobs of a worker. Must outlive them.
struct JobSetting {
  const WorkerCalls& calls;
  const v1::Inventory& inventory;
  const JobFileRules& files;
  const std::vector<int>& cores;
  SlotPool& slots;
  ProcessLauncher& launcher;
  const EngineOffer& engines;
  CallGroup& stopping;          // cancelled when the worker stops
  std::function<void()> drain;  // called when the coordinator wants the worker to take no more work
};

class RunningJob {
 public:
  // `lease` must have been granted just now.
  RunningJob(const JobSetting& setting, const Registration& session, v1::LeaseWorkResponse lease);
  ~RunningJob();  // calls Wait()

  const std::string& lease_id() const { return lease_.lease_id(); }
  // True from the lease until the report is answered or given up. False if the lease is lost.
  bool holds_lease() const { return !over_ && !keeper_.lost(); }
  bool over() const { return over_; }

  // Waits until the job is over. Call from one thread at a time.
  void Wait();

  // Ends the job without a report, before the worker deregisters, which returns the job.
  void Stop() { stop_ = true; }
  // Ends the job without a report, because the lease is no longer valid.
  void Lose() { keeper_.Lose(); }

 private:
  void Run();
  ExchangeHook ExchangeWithOthers();

  const JobSetting& setting_;
  const Registration session_;
  const v1::LeaseWorkResponse lease_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> over_{false};
  CallGroup renewals_;
  CallGroup exchanges_;
  LeaseKeeper keeper_;
  std::thread thread_;
};

}  // namespace autocfg::worker
