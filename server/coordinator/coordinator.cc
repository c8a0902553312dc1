#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/os/process_limits.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "server/access/access_control.h"
#include "server/access/audit_log.h"
#include "server/access/token_table.h"
#include "server/coordinator/pruning.h"
#include "server/listen/grpc_server.h"
#include "server/listen/listen_address.h"
#include "server/listen/listen_sockets.h"
#include "server/listen/listener.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_text.h"
#include "server/report/study_reports.h"
#include "server/sched/dispatcher.h"
#include "server/sched/lease_expiry.h"
#include "server/sched/notifier.h"
#include "server/sched/rendezvous.h"
#include "server/services/access_service.h"
#include "server/services/call_threads.h"
#include "server/services/study_service.h"
#include "server/services/worker_service.h"
#include "server/studies/study_runners.h"

namespace autocfg::server {
namespace {

constexpr int kMaxReceivedBytes = 16 << 20;
constexpr int kMaxSentBytes = 64 << 20;
// time limit for all workers of a job to join a gathering
constexpr absl::Duration kBarrier = absl::Seconds(30);
constexpr absl::Duration kGrace = absl::Seconds(2);  // for in-flight calls when the server ends
// Time in which new calls are still answered during shutdown, so that a rejected caller that retries
// immediately gets the same answer. Later calls get CANCELLED from gRPC.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(100);
constexpr const char* kServices[] = {"autocfg.v1.StudyService", "autocfg.v1.WorkerService",
                                     "autocfg.v1.AccessService"};

// Detects within 30 s that a peer's machine is gone. Peers may ping every 5 s. The timeout is gRPC's default:
// a client without a call that waits may read its connection only every 5 s, and on a loaded machine later.
// One whose connection was closed meanwhile would get UNAVAILABLE for its next call.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kShortestPeerPingMs = 5'000;

// A connection keeps its place for this long without speaking HTTP/2, or without a call. Clients reconnect by
// themselves at their next call.
constexpr int kHandshakeMs = 5'000;
constexpr int kIdleMs = 120'000;

// Limits on concurrent thread-bound calls (of which kMaxWatchers and kMaxPredictors may be streams) and on
// message memory. Beyond them, calls fail with RESOURCE_EXHAUSTED. Allows a thousand concurrent calls.
constexpr int kMaxThreads = 2048;
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

// Threads that must be free at the start: those of a coordinator that nobody calls, with some for calls.
constexpr int kThreads = 24 + CallThreads::kCallThreads;

void SetBounds(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  builder.SetMaxSendMessageSize(kMaxSentBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kShortestPeerPingMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.SetResourceQuota(grpc::ResourceQuota("autocfg").SetMaxThreads(kMaxThreads).Resize(kMaxBytes));
}

// Returns ResourceExhausted if the process cannot have them. Without this check, gRPC would wait for threads
// that it could not start, or abort.
absl::Status CheckThreads() {
  const std::error_code error = base::TryThreads(kThreads);
  if (!error) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "cannot create {} threads ({}); raise the limit on processes and threads (ulimit -u, TasksMax)",
      kThreads, error.message()));
}

// An address where the coordinator listens.
struct ListeningPlace {
  ListenAddress address;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  ListenSockets sockets;
  Listener::Handler take = {};
};

// Opens all addresses of the options.
absl::Status OpenListeningPlaces(const CoordinatorOptions& options, std::vector<ListeningPlace>& places) {
  std::vector<std::string> texts = {options.address};
  texts.insert(texts.end(), options.more_addresses.begin(), options.more_addresses.end());
  for (const std::string& text : texts) {
    AUTOCFG_ASSIGN_OR_RETURN(auto address, ParseListenAddress(text));
    AUTOCFG_ASSIGN_OR_RETURN(
        auto credentials,
        CredentialsFor(address, options.tls, {.tokens = options.tokens, .insecure = options.insecure}));
    AUTOCFG_ASSIGN_OR_RETURN(auto sockets, ListenSockets::Open(address));
    places.push_back({std::move(address), std::move(credentials), std::move(sockets)});
  }
  return absl::OkStatus();
}

StudyRunnersOptions RunnersOptions(const CoordinatorOptions& options) {
  StudyRunnersOptions runners;
  runners.most_planning_s = options.most_planning_s;
  return runners;
}

void SetServing(grpc::Server& server, bool serving) {
  grpc::HealthCheckServiceInterface* health = server.GetHealthCheckService();
  health->SetServingStatus(serving);
  for (const char* service : kServices) health->SetServingStatus(service, serving);
}

}  // namespace

struct Coordinator::Impl {
  Impl(std::unique_ptr<Store> given, std::unique_ptr<AuditLog> log, const CoordinatorOptions& options)
      : audit(std::move(log)),
        store(Heard(std::move(given))),
        runners(
            *store, notifier, options.clock, [this] { return AtWork(); }, RunnersOptions(options)),
        reports(*store),
        rendezvous(*store, {.barrier = kBarrier}),
        dispatcher(*store, options.clock,
                   {.lease_duration_s = options.lease_duration_s,
                    .on_waiting =
                        [this](const std::vector<std::int64_t>& studies) {
                          for (const std::int64_t study : studies) notifier.Notify(study);
                        }}),
        tokens(*store, options.clock),
        access(tokens, audit.get(), {.local_principal = options.owner, .tokens = options.tokens}),
        studies({.store = *store,
                 .notifier = notifier,
                 .runners = runners,
                 .dispatcher = dispatcher,
                 .reports = reports,
                 .workers = [this] { return AtWork(); },
                 .clock = options.clock,
                 .access = access}),
        workers({.store = *store,
                 .dispatcher = dispatcher,
                 .rendezvous = rendezvous,
                 .metrics = metrics,
                 .clock = options.clock,
                 .lease_duration_s = options.lease_duration_s,
                 .barrier_s = absl::ToDoubleSeconds(kBarrier),
                 .access = &access}),
        accesses(tokens) {}

  // Returns the workers that take jobs.
  absl::StatusOr<std::vector<WorkerRecord>> AtWork() {
    auto records = store->ListWorkers("", std::numeric_limits<int>::max(), /*gone=*/false);
    if (!records.ok()) return records.status();
    std::erase_if(*records, [this](const WorkerRecord& record) {
      return !dispatcher.Seen(record.session.worker).takes_jobs;
    });
    return records;
  }

  // Sets the listeners before the dispatcher's thread begins to use the store. Nobody else uses the store
  // before construction is complete.
  std::unique_ptr<Store> Heard(std::unique_ptr<Store> given) {
    given->OnChange([this](const StoreChange& change) { StoreChanged(change); });
    given->OnCommit([this](const StoreCommit& commit) { metrics.Committed(commit); });
    return given;
  }
  void StoreChanged(const StoreChange& change) {
    notifier.StoreChanged(change);
    if (!change.work && !change.failed) return;
    dispatcher.StoreChanged();
    rendezvous.StoreChanged();
  }

  const std::unique_ptr<AuditLog> audit;  // null: none
  Metrics metrics;                        // before the store, which tells it of commits
  std::unique_ptr<Store> store;
  Notifier notifier;
  StudyRunners runners;
  StudyReports reports;
  Rendezvous rendezvous;
  Dispatcher dispatcher;
  TokenTable tokens;
  AccessControl access;
  StudyServiceImpl studies;
  WorkerServiceImpl workers;
  AccessServiceImpl accesses;
  std::vector<std::string> addresses;
  std::unique_ptr<LeaseExpiry> expiry;
  std::unique_ptr<Pruning> pruning;
  std::unique_ptr<grpc::Server> server;
  std::vector<std::unique_ptr<Listener>> listeners;  // pass their connections to the server
  absl::Mutex shutdown_mutex;
  bool shut_down = false;
};

Coordinator::Coordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Coordinator::~Coordinator() { Shutdown(); }

const std::vector<std::string>& Coordinator::addresses() const { return impl_->addresses; }

Store& Coordinator::store() { return *impl_->store; }
StudyReports& Coordinator::reports() { return impl_->reports; }
const AccessControl& Coordinator::access() const { return impl_->access; }

absl::StatusOr<std::string> Coordinator::MetricsText() {
  return server::MetricsText(impl_->metrics, *impl_->store, impl_->dispatcher);
}

std::vector<base::LoopRounds> Coordinator::rounds() const {
  return {{"dispatcher", impl_->dispatcher.rounds()}, {"lease-expiry", impl_->expiry->rounds()}};
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(std::unique_ptr<Store> store,
                                                                const CoordinatorOptions& options) {
  if (!std::isfinite(options.lease_duration_s) || options.lease_duration_s <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("lease_duration_s is {}; it must be positive", options.lease_duration_s));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckThreads());
  std::vector<ListeningPlace> places;
  AUTOCFG_RETURN_IF_ERROR(OpenListeningPlaces(options, places));

  std::unique_ptr<AuditLog> audit;
  if (!options.audit_log.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(audit, AuditLog::Open(options.audit_log));
  }
  auto impl = std::make_unique<Impl>(std::move(store), std::move(audit), options);
  AUTOCFG_RETURN_IF_ERROR(impl->tokens.Load());
  for (const ListeningPlace& place : places) {
    if (options.tokens && !place.address.unix_socket)
      place.credentials->SetAuthMetadataProcessor(impl->access.Processor());
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto running, impl->store->StudiesInState(v1::STUDY_STATE_RUNNING));

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  for (ListeningPlace& place : places) place.take = TakeConnections(builder, place.credentials);
  builder.RegisterService(&impl->studies);
  builder.RegisterService(&impl->workers);
  builder.RegisterService(&impl->accesses);
  SetBounds(builder);
  auto interceptors = MalformedCallsSaySo();
  interceptors.push_back(TimeCalls(impl->metrics));
  if (impl->audit != nullptr) interceptors.push_back(AuditCalls(impl->access, *impl->audit));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr)
    return absl::UnavailableError(fmt::format("address {}: cannot serve there", options.address));
  for (const ListeningPlace& place : places)
    impl->addresses.push_back(ListenText(place.address, place.sockets.port()));
  SetServing(*impl->server, true);
  impl->expiry = std::make_unique<LeaseExpiry>(
      impl->dispatcher,
      LeaseExpiryOptions{.lease_duration_s = options.lease_duration_s,
                         .period = std::chrono::duration<double>(std::min(options.lease_duration_s / 4, 1.0)),
                         .clock = options.clock});
  for (const std::int64_t study : running) impl->runners.Start(study);
  impl->pruning = std::make_unique<Pruning>(
      *impl->store, PruningOptions{.limits = options.retention,
                                   .clock = options.clock,
                                   .first = options.first_pruning,
                                   .on_deleted = [runners = &impl->runners](const auto& studies) {
                                     for (const std::int64_t study : studies) runners->Forget(study);
                                   }});
  for (ListeningPlace& place : places)
    impl->listeners.push_back(std::make_unique<Listener>(std::move(place.sockets), std::move(place.take)));
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

void Coordinator::Shutdown() {
  absl::MutexLock lock(&impl_->shutdown_mutex);
  if (std::exchange(impl_->shut_down, true)) return;
  if (impl_->server != nullptr) SetServing(*impl_->server, false);
  // Ends streams and parked calls with UNAVAILABLE before gRPC cancels the remaining calls.
  impl_->notifier.Close();
  impl_->dispatcher.Close();
  impl_->rendezvous.Close();
  if (impl_->server != nullptr) {
    impl_->studies.AwaitNoWatchers(kGrace);
    absl::SleepFor(kLastAnswers);
    impl_->listeners.clear();
    impl_->server->Shutdown(absl::ToChronoTime(absl::Now() + kGrace));
    impl_->server->Wait();
  }
  impl_->expiry.reset();
  impl_->pruning.reset();
  impl_->runners.Stop();
}

}  // namespace autocfg::server
