// What of the WorkerService is for people: which workers there are, and their drain. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "cli/rpc.h"
#include "cli/service_options.h"
#include "cli/worker_pool.h"

namespace autocfg {

class WorkerClient {
 public:
  explicit WorkerClient(const std::string& target);  // e.g. "unix:/path"

  // By name; `gone`: those that are deregistered too.
  absl::StatusOr<std::vector<v1::Worker>> ListWorkers(bool gone);
  absl::Status DrainWorker(const std::string& name);  // NotFound

 private:
  const Connection connection_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
};

// The workers of --coordinator that take work.
absl::StatusOr<WorkerPool> ListPool(const ServiceOptions& options);

}  // namespace autocfg
