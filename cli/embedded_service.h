// The coordinator and a worker inside this process, on a Unix socket beside the database: the same code that
// runs as services, speaking the same protocol. Use from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/nvml/gpus.h"
#include "server/coordinator.h"
#include "worker/worker.h"

namespace autocfg {

class EmbeddedService {
 public:
  // Opens the database (made where it is missing) and starts the coordinator. FailedPrecondition names the
  // process that has it open.
  static absl::StatusOr<std::unique_ptr<EmbeddedService>> Start(const std::string& database);
  ~EmbeddedService();  // Stop()

  // The gRPC target.
  const std::string& address() const { return coordinator_->address(); }

  // From here on jobs are run, `slots` ranks at once: on the machine's GPUs where some are given, else on the
  // CPU.
  absl::Status StartWorker(std::int64_t slots, const GpuList& machine = {});

  // Ends the worker with its processes, then the coordinator. What was measured is stored. Idempotent.
  void Stop();

 private:
  explicit EmbeddedService(std::unique_ptr<Coordinator> coordinator) : coordinator_(std::move(coordinator)) {}

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace autocfg
