#include "server/coordinator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "fmt/format.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/sched/lease_expiry.h"
#include "server/sched/notifier.h"
#include "server/services/study_service.h"
#include "server/services/worker_service.h"
#include "server/study_runner.h"
#include "server/unix_socket.h"

namespace autocfg {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr int kMaxMessageBytes = 16 << 20;
constexpr std::chrono::seconds kGrace(2);  // for calls under way when the server ends

absl::Status CheckAddress(const std::string& address) {
  const std::string_view text = address;
  if (text.starts_with(kUnix)) return absl::OkStatus();
  for (const std::string_view loopback : {"localhost:", "127.0.0.1:", "[::1]:"}) {
    if (text.starts_with(loopback) && text.size() > loopback.size()) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("address {}: unix:PATH or a loopback address with its port is asked for", address));
}

}  // namespace

struct Coordinator::Impl {
  Impl(std::unique_ptr<Store> given, const CoordinatorOptions& options)
      : store(std::move(given)),
        runners(*store, notifier, options.clock),
        studies(*store, notifier, runners, options.clock, options.owner),
        workers(*store, notifier, options.clock, options.lease_duration_s),
        address(options.address) {}

  std::unique_ptr<Store> store;
  Notifier notifier;
  StudyRunners runners;
  StudyServiceImpl studies;
  WorkerServiceImpl workers;
  std::string address;
  std::unique_ptr<LeaseExpiry> expiry;
  std::unique_ptr<grpc::Server> server;
  absl::Mutex shutdown_mutex;
  bool shut_down = false;
};

Coordinator::Coordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Coordinator::~Coordinator() { Shutdown(); }

const std::string& Coordinator::address() const { return impl_->address; }

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(std::unique_ptr<Store> store,
                                                                const CoordinatorOptions& options) {
  if (absl::Status status = CheckAddress(options.address); !status.ok()) return status;
  if (!std::isfinite(options.lease_duration_s) || options.lease_duration_s <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("lease_duration_s is {}; it must be positive", options.lease_duration_s));
  }
  const bool unix_socket = std::string_view(options.address).starts_with(kUnix);
  const std::string path = unix_socket ? options.address.substr(kUnix.size()) : "";
  if (unix_socket) {
    if (absl::Status status = ClearSocketPath(path); !status.ok()) return status;
  }

  auto impl = std::make_unique<Impl>(std::move(store), options);
  impl->store->OnChange([notifier = &impl->notifier] { notifier->Notify(); });
  const auto running = impl->store->StudiesInState(v1::STUDY_STATE_RUNNING);
  if (!running.ok()) return running.status();

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&impl->studies);
  builder.RegisterService(&impl->workers);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // Two coordinators on one port would share its calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || port == 0) {
    return absl::UnavailableError(fmt::format("address {}: cannot listen there", options.address));
  }
  if (unix_socket) {
    if (absl::Status status = CloseToOthers(path); !status.ok()) return status;
  } else {
    impl->address = fmt::format("{}:{}", options.address.substr(0, options.address.rfind(':')), port);
  }
  const absl::Duration lease = absl::Seconds(options.lease_duration_s);
  impl->expiry = std::make_unique<LeaseExpiry>(*impl->store, options.clock, lease,
                                               std::min(lease / 4, absl::Seconds(1)));
  for (const std::int64_t study : *running) impl->runners.Start(study);
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

void Coordinator::Shutdown() {
  absl::MutexLock lock(&impl_->shutdown_mutex);
  if (std::exchange(impl_->shut_down, true)) return;
  impl_->notifier.Close();  // Ends long polls and streams.
  if (impl_->server != nullptr) {
    impl_->server->Shutdown(std::chrono::system_clock::now() + kGrace);
    impl_->server->Wait();
  }
  impl_->expiry.reset();
  impl_->runners.Stop();
}

}  // namespace autocfg
