// A worker: registers with a coordinator, leases jobs (as many at once as its slots allow), runs them with
// the process launcher, renews its leases and reports. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "base/service/loop_watch.h"
#include "proto/rpc/endpoint.h"
#include "worker/engines/engine_file.h"
#include "worker/jobs/departure.h"
#include "worker/jobs/job_files.h"
#include "worker/launcher/job_allowance.h"

namespace autocfg::worker {

struct WorkerOptions {
  Endpoint coordinator;
  bool insecure = false;     // allow plain text to another machine
  std::string name;          // "workers/{id}"; stable across restarts
  std::string trainer_path;  // the autocfg-trainer program
  v1::Inventory inventory;
  JobFileRules files = {};                    // that jobs may name; none by default
  EngineOffer engines = {};                   // beside the built-in one, with their versions
  JobAllowance allowance = {};                // of each job
  std::vector<int> cores = {};                // slot i is core i mod cores; empty: PhysicalCores()
  DepartureOptions departure = {};            // when it must go
  double wait_s = 5;                          // time limit for Start to reach an unavailable coordinator
  const std::atomic<bool>* cancel = nullptr;  // polled by Start: true ends it with CANCELLED
};

class Worker {
 public:
  // Registers. Unavailable, with the address: no coordinator is reachable. InvalidArgument: the channel or
  // the coordinator rejected the options.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);
  ~Worker();  // calls Stop()

  // Ends running jobs (their processes too), deregisters and returns. Idempotent.
  void Stop();

  // The loop that takes jobs. It makes a round several times a minute unless it is stuck.
  std::vector<base::LoopRounds> rounds() const;

  // Waits until the worker was stopped or ended by itself. Returns OK if it was stopped, or drained with its
  // jobs done; FailedPrecondition if another worker registered under its name. May be called repeatedly.
  absl::Status WaitUntilEnded();

 private:
  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg::worker
