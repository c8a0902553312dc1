// The user-facing part of WorkerService: listing and draining workers. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "cli/client/worker_pool.h"
#include "cli/input/service_options.h"
#include "proto/client/rpc.h"

namespace autocfg::cli {

class WorkerClient {
 public:
  explicit WorkerClient(const Endpoint& endpoint);

  // Returns the workers by name; with `gone`, deregistered ones too.
  absl::StatusOr<std::vector<v1::Worker>> ListWorkers(bool gone);
  absl::Status DrainWorker(const std::string& name);  // NotFound

 private:
  const Connection connection_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
};

// Returns the workers of --coordinator that take jobs.
absl::StatusOr<WorkerPool> ListPool(const ServiceOptions& options);

}  // namespace autocfg::cli
