// The worker: registers with a coordinator, leases jobs, several at once where it has slots for them, runs
// them with the process launcher, renews its leases, reports. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

struct WorkerOptions {
  std::string coordinator;   // unix:PATH or HOST:PORT
  bool insecure = false;     // plain text to another machine is accepted
  std::string name;          // "workers/{id}"; stable over restarts
  std::string trainer_path;  // the autocfg-trainer program
  v1::Inventory inventory;
  std::vector<int> cores = {};                // slot i is core i mod cores; empty: PhysicalCores()
  double wait_s = 5;                          // how long Start tries to reach a coordinator that is not there
  const std::atomic<bool>* cancel = nullptr;  // Start looks at it: true ends it with CANCELLED
};

class Worker {
 public:
  // Registers. Unavailable, with the address: nobody is there; InvalidArgument: what the channel or the
  // coordinator refuses.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);
  ~Worker();  // Stop()

  // Ends running jobs (their processes too), deregisters and returns. Idempotent.
  void Stop();

  // Until it has been stopped, or has ended by itself: OK once it was drained and its jobs are done,
  // FailedPrecondition where another worker has registered under its name. Any number of times.
  absl::Status WaitUntilEnded();

 private:
  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg
