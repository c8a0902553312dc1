// The worker: registers with a coordinator, leases jobs, runs them with the process launcher, renews its leases, reports. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

struct WorkerOptions {
  std::string coordinator;   // gRPC target, e.g. "unix:/path"
  std::string name;          // "workers/{id}"; stable over restarts
  std::string trainer_path;  // the autocfg-trainer program
  v1::Inventory inventory;
};

class Worker {
 public:
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);
  ~Worker();  // Stop()

  // Ends running jobs (their processes too), deregisters and returns. Idempotent.
  void Stop();

 private:
  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg
