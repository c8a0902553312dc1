#include "worker/worker.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "spdlog/spdlog.h"
#include "worker/inventory.h"
#include "worker/job_runner.h"
#include "worker/lease_keeper.h"
#include "worker/process_launcher.h"

namespace autocfg {
namespace {

constexpr double kCallSeconds = 5;          // a short call's deadline
constexpr double kPollSeconds = 20;         // how long LeaseWork may wait
constexpr int kMaxMessageBytes = 64 << 20;  // calibrations of large spaces exceed gRPC's 4 MiB

std::chrono::system_clock::time_point Deadline(double seconds) {
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                                std::chrono::duration<double>(seconds));
}

absl::Status ToAbsl(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

std::string RandomId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

struct Worker::Impl {
  explicit Impl(WorkerOptions worker_options)
      : options(std::move(worker_options)),
        boot_id(RandomId()),
        cores(PhysicalCores()),
        launcher(options.trainer_path) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    stub = v1::WorkerService::NewStub(
        grpc::CreateCustomChannel(options.coordinator, grpc::InsecureChannelCredentials(), arguments));
  }

  absl::Status Register() {
    grpc::ClientContext context;
    context.set_deadline(Deadline(kCallSeconds));
    context.set_wait_for_ready(true);
    v1::RegisterWorkerRequest request;
    request.set_worker(options.name);
    request.set_boot_id(boot_id);
    *request.mutable_inventory() = options.inventory;
    v1::RegisterWorkerResponse response;
    if (const auto status = stub->RegisterWorker(&context, request, &response); !status.ok())
      return ToAbsl(status);
    if (!(response.lease_duration_s() > 0)) {
      return absl::InternalError("the coordinator granted leases of no duration");
    }
    session_epoch = response.session_epoch();
    lease_duration_s = response.lease_duration_s();
    return absl::OkStatus();
  }

  // Sleeps unless the worker is being stopped.
  void Pause(double seconds) {
    absl::MutexLock lock(&mutex);
    mutex.AwaitWithTimeout(absl::Condition(&stopping), absl::Seconds(seconds));
  }

  bool Stopping() {
    absl::MutexLock lock(&mutex);
    return stopping;
  }

  // The long poll. Stop() ends it early.
  grpc::Status Lease(v1::LeaseWorkResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(Deadline(kPollSeconds + kCallSeconds));
    {
      absl::MutexLock lock(&mutex);
      if (stopping) return grpc::Status::CANCELLED;
      polling = &context;
    }
    v1::LeaseWorkRequest request;
    request.set_worker(options.name);
    request.set_session_epoch(session_epoch);
    request.set_wait_s(kPollSeconds);
    const grpc::Status status = stub->LeaseWork(&context, request, response);
    absl::MutexLock lock(&mutex);
    polling = nullptr;
    return status;
  }

  void Loop() {
    double backoff_s = 0.1;
    while (!Stopping()) {
      v1::LeaseWorkResponse response;
      const auto asked = LeaseKeeper::Clock::now();
      const grpc::Status status = Lease(&response);
      if (Stopping()) return;
      if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
        spdlog::error("{}: another worker has registered under this name; taking no more work ({})",
                      options.name, status.error_message());
        return;
      }
      if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
        if (const auto again = Register(); !again.ok()) {
          spdlog::warn("{}: cannot register again: {}", options.name, again.ToString());
        }
      }
      if (!status.ok()) {
        spdlog::debug("{}: no work: {}", options.name, status.error_message());
        Pause(backoff_s);
        backoff_s = std::min(2.0, backoff_s * 2);
        continue;
      }
      backoff_s = 0.1;
      if (response.drain()) return;
      if (response.has_job()) Work(response, asked);
    }
  }

  void Work(const v1::LeaseWorkResponse& lease, LeaseKeeper::Clock::time_point granted) {
    {
      absl::MutexLock lock(&mutex);
      job_stop = stopping;
    }
    LeaseKeeper keeper(
        granted, lease_duration_s, [&] { return Renew(lease); }, &job_stop);
    LaunchHooks hooks;
    hooks.cancel = &job_stop;
    const JobReport report = RunJob(lease.job(), options.inventory, cores, launcher, hooks);
    // A job that this worker's own end cut short says nothing: deregistering gives it back to the queue.
    const bool cut_short = report.outcome == v1::OUTCOME_CANCELLED && !keeper.cancelled();
    if (!cut_short && !keeper.lost()) Report(lease, report, keeper);
  }

  absl::StatusOr<v1::LeaseCommand> Renew(const v1::LeaseWorkResponse& lease) {
    grpc::ClientContext context;
    context.set_deadline(Deadline(std::min(kCallSeconds, lease_duration_s / 3)));
    v1::RenewLeaseRequest request;
    request.set_worker(options.name);
    request.set_session_epoch(session_epoch);
    request.set_lease_id(lease.lease_id());
    request.set_fencing_token(lease.fencing_token());
    v1::RenewLeaseResponse response;
    if (const auto status = stub->RenewLease(&context, request, &response); !status.ok())
      return ToAbsl(status);
    return response.command();
  }

  // Until it is accepted or refused, as long as the lease can still be valid. The same request_id makes
  // repeats harmless.
  void Report(const v1::LeaseWorkResponse& lease, const JobReport& report, const LeaseKeeper& keeper) {
    v1::ReportTrialRequest request;
    request.set_worker(options.name);
    request.set_session_epoch(session_epoch);
    request.set_lease_id(lease.lease_id());
    request.set_fencing_token(lease.fencing_token());
    request.set_attempt(lease.job().attempt());
    request.set_request_id(lease.lease_id() + "/report");
    request.set_outcome(report.outcome);
    request.set_message(report.message);
    if (report.measurement) *request.mutable_measurement() = *report.measurement;
    if (report.calibration) *request.mutable_calibration() = *report.calibration;
    double backoff_s = 0.1;
    for (;;) {
      grpc::ClientContext context;
      context.set_deadline(Deadline(kCallSeconds));
      v1::ReportTrialResponse response;
      const auto status = stub->ReportTrial(&context, request, &response);
      if (status.ok()) return;
      const bool may_pass = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                            status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (!may_pass) {
        spdlog::warn("{}: the report of {} was refused: {}", options.name, lease.job().name(),
                     status.error_message());
        return;
      }
      if (keeper.lost() || Stopping()) {
        spdlog::warn("{}: the report of {} did not get through: {}", options.name, lease.job().name(),
                     status.error_message());
        return;
      }
      Pause(backoff_s);
      backoff_s = std::min(2.0, backoff_s * 2);
    }
  }

  void Stop() {
    {
      absl::MutexLock lock(&mutex);
      stopping = true;
      job_stop = true;
      if (polling != nullptr) polling->TryCancel();
    }
    absl::MutexLock lock(&stop_mutex);
    if (!loop.joinable()) return;
    loop.join();
    grpc::ClientContext context;
    context.set_deadline(Deadline(kCallSeconds));
    v1::DeregisterWorkerRequest request;
    request.set_worker(options.name);
    request.set_session_epoch(session_epoch);
    v1::DeregisterWorkerResponse response;
    const auto status = stub->DeregisterWorker(&context, request, &response);
    // A coordinator that is gone has nothing to be told: the next registration frees what this one held.
    if (!status.ok()) spdlog::debug("{}: not deregistered: {}", options.name, status.error_message());
  }

  const WorkerOptions options;
  const std::string boot_id;
  const std::vector<int> cores;
  ProcessLauncher launcher;
  std::unique_ptr<v1::WorkerService::Stub> stub;
  std::int64_t session_epoch = 0;  // written by Start and by the loop, read by the loop's jobs
  double lease_duration_s = 0;
  std::atomic<bool> job_stop{false};  // becomes false under the mutex only, so that Stop() is not forgotten
  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  grpc::ClientContext* polling ABSL_GUARDED_BY(mutex) = nullptr;
  absl::Mutex stop_mutex;
  std::thread loop;
};

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  if (options.inventory.slots() <= 0) return absl::InvalidArgumentError("a worker needs at least one slot");
  auto impl = std::make_unique<Impl>(options);
  if (const auto status = impl->Register(); !status.ok()) {
    return absl::Status(status.code(), fmt::format("cannot register {} with {}: {}", options.name,
                                                   options.coordinator, std::string(status.message())));
  }
  impl->loop = std::thread([raw = impl.get()] { raw->Loop(); });
  return std::unique_ptr<Worker>(new Worker(std::move(impl)));
}

Worker::~Worker() { Stop(); }

void Worker::Stop() { impl_->Stop(); }

}  // namespace autocfg
