// The coordinator and a worker inside this process, on a Unix socket beside the database. Same code and
// protocol as the separate services. Use from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/nvml/gpus.h"
#include "server/coordinator/coordinator.h"
#include "server/store/store.h"
#include "worker/program/worker.h"

namespace autocfg::cli {

class EmbeddedService {
 public:
  // Opens the database, creating it if missing, and starts the coordinator. FailedPrecondition names the
  // process that has the database open.
  static absl::StatusOr<std::unique_ptr<EmbeddedService>> Start(const std::string& database);
  // Starts the coordinator on a store in memory: it needs no file and no lock, and keeps nothing.
  static absl::StatusOr<std::unique_ptr<EmbeddedService>> StartInMemory();
  ~EmbeddedService();  // Stop()

  // The gRPC target.
  const std::string& address() const { return coordinator_->address(); }

  // Starts a worker that runs jobs with `slots` ranks at once: on the GPUs of `machine` if it has any,
  // otherwise on the CPU. It offers `engines`, whose versions are known (ReadEngineVersions).
  absl::Status StartWorker(std::int64_t slots, const GpuList& machine = {}, worker::EngineOffer engines = {});

  // Stops the worker with its processes, then the coordinator. Measurements are stored. Idempotent.
  void Stop();

 private:
  static absl::StatusOr<std::unique_ptr<EmbeddedService>> Serve(
      const std::string& socket, const std::function<absl::StatusOr<std::unique_ptr<server::Store>>()>& open);

  explicit EmbeddedService(std::unique_ptr<server::Coordinator> coordinator)
      : coordinator_(std::move(coordinator)) {}

  std::unique_ptr<server::Coordinator> coordinator_;
  std::unique_ptr<worker::Worker> worker_;
};

}  // namespace autocfg::cli
