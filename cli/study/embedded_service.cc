#include "cli/study/embedded_service.h"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/os/process_limits.h"
#include "base/status_macros.h"
#include "cli/input/service_options.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "server/store/sqlite/sqlite_store.h"
#include "worker/launcher/process_launcher.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {

absl::StatusOr<std::unique_ptr<EmbeddedService>> EmbeddedService::Start(const std::string& database) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto socket, SocketPath(database));
  return Serve(socket, [&] { return server::OpenSqliteStore(database); });
}

absl::StatusOr<std::unique_ptr<EmbeddedService>> EmbeddedService::StartInMemory() {
  AUTOCFG_ASSIGN_OR_RETURN(const auto socket, PrivateSocketPath());
  return Serve(socket, [] { return server::OpenMemoryStore(); });
}

absl::StatusOr<std::unique_ptr<EmbeddedService>> EmbeddedService::Serve(
    const std::string& socket, const std::function<absl::StatusOr<std::unique_ptr<server::Store>>()>& open) {
  base::RaiseDescriptorLimit();  // for connections and for the pipes of ranks
  // Write access to the socket lets a process run programs as this user. The socket and the database are
  // therefore created accessible to this user only.
  const mode_t before = umask(0077);
  auto store = open();
  if (!store.ok()) {
    umask(before);
    return store.status();
  }
  server::CoordinatorOptions options;
  options.address = "unix:" + socket;
  auto coordinator = server::Coordinator::Start(*std::move(store), options);
  umask(before);
  if (!coordinator.ok()) return Where("the embedded coordinator", coordinator.status());
  return std::unique_ptr<EmbeddedService>(new EmbeddedService(*std::move(coordinator)));
}

EmbeddedService::~EmbeddedService() { Stop(); }

absl::Status EmbeddedService::StartWorker(std::int64_t slots, const GpuList& machine,
                                          worker::EngineOffer engines) {
  worker::WorkerOptions options;
  options.coordinator.target = address();
  options.name = "workers/local";
  options.trainer_path = worker::FindTrainer();
  if (access(options.trainer_path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(fmt::format(
        "{}: the training engine is missing; build autocfg-trainer beside autocfg or set AUTOCFG_TRAINER",
        options.trainer_path.empty() ? "autocfg-trainer" : options.trainer_path));
  }
  AUTOCFG_RETURN_IF_ERROR(worker::CheckSupervisor());
  options.engines = std::move(engines);
  options.inventory = worker::LocalInventory(machine, slots);
  AUTOCFG_ASSIGN_OR_RETURN(worker_, worker::Worker::Start(options));
  return absl::OkStatus();
}

void EmbeddedService::Stop() {
  if (worker_) worker_->Stop();
  if (coordinator_) coordinator_->Shutdown();
}

}  // namespace autocfg::cli
