#include "server/coordinator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "server/credentials.h"
#include "server/listen_address.h"
#include "server/sched/dispatcher.h"
#include "server/sched/lease_expiry.h"
#include "server/sched/notifier.h"
#include "server/sched/rendezvous.h"
#include "server/services/malformed_calls.h"
#include "server/services/study_service.h"
#include "server/services/worker_service.h"
#include "server/study_runner.h"
#include "server/unix_socket.h"

namespace autocfg {
namespace {

constexpr int kMaxReceivedBytes = 16 << 20;
constexpr int kMaxSentBytes = 64 << 20;
// for the workers of a job to come to each of its gatherings
constexpr absl::Duration kBarrier = absl::Seconds(30);
constexpr absl::Duration kGrace = absl::Seconds(2);  // for calls under way when the server ends
// For calls that come then: who was sent away and comes again at once gets the same answer. A call that comes
// while gRPC shuts down is told CANCELLED.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(100);
constexpr const char* kServices[] = {"autocfg.v1.StudyService", "autocfg.v1.WorkerService"};

// A peer whose machine is gone is noticed within 15 s, and peers may ask as often.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kShortestPeerPingMs = 5'000;

// More calls that take a thread (kMaxWatchers and kMaxPredictors of them may be streams) and longer messages
// than that are refused with RESOURCE_EXHAUSTED rather than kept. A thousand calls at once pass.
constexpr int kMaxThreads = 2048;
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

void SetBounds(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  builder.SetMaxSendMessageSize(kMaxSentBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kShortestPeerPingMs);
  // Two coordinators on one port would share its calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetResourceQuota(grpc::ResourceQuota("autocfg").SetMaxThreads(kMaxThreads).Resize(kMaxBytes));
}

void SetServing(grpc::Server& server, bool serving) {
  grpc::HealthCheckServiceInterface* health = server.GetHealthCheckService();
  health->SetServingStatus(serving);
  for (const char* service : kServices) health->SetServingStatus(service, serving);
}

}  // namespace

struct Coordinator::Impl {
  Impl(std::unique_ptr<Store> given, const CoordinatorOptions& options)
      : store(Heard(std::move(given))),
        runners(*store, notifier, options.clock, [this] { return AtWork(); }),
        rendezvous(*store, {.barrier = kBarrier}),
        dispatcher(
            *store, options.clock,
            {.lease_duration_s = options.lease_duration_s, .on_waiting = [this] { notifier.Notify(); }}),
        studies({.store = *store,
                 .notifier = notifier,
                 .runners = runners,
                 .dispatcher = dispatcher,
                 .clock = options.clock,
                 .local_principal = options.owner}),
        workers({.store = *store,
                 .dispatcher = dispatcher,
                 .rendezvous = rendezvous,
                 .clock = options.clock,
                 .lease_duration_s = options.lease_duration_s,
                 .barrier_s = absl::ToDoubleSeconds(kBarrier)}),
        address(options.address) {}

  // Those that were heard of within a lease's duration.
  absl::StatusOr<std::vector<WorkerRecord>> AtWork() {
    auto records = store->ListWorkers("", std::numeric_limits<int>::max(), /*gone=*/false);
    if (!records.ok()) return records.status();
    std::erase_if(*records, [this](const WorkerRecord& record) {
      return dispatcher.Seen(record.session.worker).silent;
    });
    return records;
  }

  // Before the dispatcher begins, whose thread uses the store; nobody else does until all is made.
  std::unique_ptr<Store> Heard(std::unique_ptr<Store> given) {
    given->OnChange([this] { StoreChanged(); });
    return given;
  }
  void StoreChanged() {
    notifier.Notify();
    dispatcher.StoreChanged();
    rendezvous.StoreChanged();
  }

  std::unique_ptr<Store> store;
  Notifier notifier;
  StudyRunners runners;
  Rendezvous rendezvous;
  Dispatcher dispatcher;
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
  const auto address = ParseListenAddress(options.address);
  if (!address.ok()) return address.status();
  const auto credentials = CredentialsFor(*address, options.insecure);
  if (!credentials.ok()) return credentials.status();
  if (!std::isfinite(options.lease_duration_s) || options.lease_duration_s <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("lease_duration_s is {}; it must be positive", options.lease_duration_s));
  }
  if (address->unix_socket) {
    if (absl::Status status = ClearSocketPath(address->path); !status.ok()) return status;
  }

  auto impl = std::make_unique<Impl>(std::move(store), options);
  const auto running = impl->store->StudiesInState(v1::STUDY_STATE_RUNNING);
  if (!running.ok()) return running.status();

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.address, *credentials, &port);
  builder.RegisterService(&impl->studies);
  builder.RegisterService(&impl->workers);
  SetBounds(builder);
  builder.experimental().SetInterceptorCreators(MalformedCallsSaySo());
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || port == 0) {
    return absl::UnavailableError(
        fmt::format("address {}: {}", options.address,
                    address->unix_socket ? "cannot listen there" : WhyNotListening(*address)));
  }
  if (address->unix_socket) {
    if (absl::Status status = CloseToOthers(address->path); !status.ok()) return status;
  }
  impl->address = ListenText(*address, port);
  SetServing(*impl->server, true);
  const absl::Duration lease = absl::Seconds(options.lease_duration_s);
  impl->expiry =
      std::make_unique<LeaseExpiry>(impl->dispatcher, lease, std::min(lease / 4, absl::Seconds(1)));
  for (const std::int64_t study : *running) impl->runners.Start(study);
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

void Coordinator::Shutdown() {
  absl::MutexLock lock(&impl_->shutdown_mutex);
  if (std::exchange(impl_->shut_down, true)) return;
  if (impl_->server != nullptr) SetServing(*impl_->server, false);
  // Streams and parked calls end, with UNAVAILABLE, before gRPC begins to cancel what is left.
  impl_->notifier.Close();
  impl_->dispatcher.Close();
  impl_->rendezvous.Close();
  if (impl_->server != nullptr) {
    impl_->studies.AwaitNoWatchers(kGrace);
    absl::SleepFor(kLastAnswers);
    impl_->server->Shutdown(absl::ToChronoTime(absl::Now() + kGrace));
    impl_->server->Wait();
  }
  impl_->expiry.reset();
  impl_->runners.Stop();
}

}  // namespace autocfg
