// A leased job, or a share of one, from its lease to its report, on a thread of its own. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/job_runner.h"
#include "worker/lease_keeper.h"
#include "worker/process_launcher.h"
#include "worker/slot_pool.h"
#include "worker/worker_calls.h"

namespace autocfg {

// What all jobs of a worker share. Outlives them.
struct JobSetting {
  const WorkerCalls& calls;
  const v1::Inventory& inventory;
  const std::vector<int>& cores;
  SlotPool& slots;
  ProcessLauncher& launcher;
  CallGroup& stopping;          // the worker is being stopped
  std::function<void()> drain;  // the coordinator wants the worker to take no more work
};

class RunningJob {
 public:
  // The lease came just now.
  RunningJob(const JobSetting& setting, const Registration& session, v1::LeaseWorkResponse lease);
  ~RunningJob();  // Wait()

  const std::string& lease_id() const { return lease_.lease_id(); }
  // From the lease until its report has been answered or given up, unless it is lost.
  bool holds_lease() const { return !over_ && !keeper_.lost(); }
  bool over() const { return over_; }

  // Until it is over. From one thread at a time.
  void Wait();

  // Ends it without a report: the worker is to deregister, which gives the job back.
  void Stop() { stop_ = true; }
  // Ends it without a report: the lease means nothing any more.
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

}  // namespace autocfg
