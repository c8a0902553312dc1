#include "worker/program/worker.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/os/host.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "proto/rpc/channel.h"
#include "proto/rpc/unreachable.h"
#include "spdlog/spdlog.h"
#include "worker/jobs/lease_loop.h"
#include "worker/jobs/worker_calls.h"
#include "worker/launcher/process_launcher.h"
#include "worker/machine/inventory.h"

namespace autocfg::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLookSeconds = 0.05;  // Start notices a cancellation within this time
constexpr double kPauseSeconds = 0.2;
constexpr double kLastTrySeconds = 1;  // limit of a call without a connection, which says why there is none
constexpr double kTellSeconds = 3;     // a coordinator that takes longer to answer is waited for with a note

Clock::time_point ClockIn(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Returns the options with the offered engines in the inventory.
WorkerOptions WithEngines(WorkerOptions options) {
  for (v1::Engine& engine : EngineMessages(options.engines.engines))
    *options.inventory.add_engines() = std::move(engine);
  return options;
}

}  // namespace

struct Worker::Impl {
  Impl(const WorkerOptions& worker_options, std::shared_ptr<grpc::Channel> given)
      : options(WithEngines(worker_options)),
        boot_id(base::RandomId()),
        cores(options.cores.empty() ? PhysicalCores() : options.cores),
        launcher(options.trainer_path, FindSupervisor(), options.allowance),
        channel(std::move(given)),
        calls(channel, options.name, options.coordinator.token_file),
        departure(options.departure),
        loop(calls, boot_id, options.inventory, options.files, cores, launcher, options.engines, departure) {}

  bool Cancelled() const { return options.cancel != nullptr && *options.cancel; }

  // Returns false if no coordinator was reachable until `end`, or if cancelled.
  bool Connect(Clock::time_point end) {
    while (!Cancelled()) {
      const double left_s = std::chrono::duration<double>(end - Clock::now()).count();
      if (left_s <= 0) break;
      if (channel->WaitForConnected(DeadlineIn(std::min(left_s, kLookSeconds)))) return true;
    }
    return false;
  }

  // Returns the status of a call, or why there was no connection for it.
  absl::Status WhyOf(const absl::Status& status) const {
    const bool unreachable = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (!unreachable || channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) return status;
    return Unreachable(options.coordinator, status);
  }

  absl::StatusOr<Registration> Register() {
    const Clock::time_point end = ClockIn(options.wait_s);
    Clock::time_point told = std::min(end, ClockIn(kTellSeconds));
    CallGroup own;
    while (true) {
      const bool connected = Connect(told);
      if (Cancelled()) return absl::CancelledError("cancelled");
      auto session = calls.Register(boot_id, options.inventory, own,
                                    {.deadline_s = connected ? WorkerCalls::kCallSeconds : kLastTrySeconds});
      // A coordinator that is starting, ending or temporarily full may accept later. So may one that refuses
      // the token, but at the start it is more likely that the wrong one was given.
      if (session.ok() || !MayPass(session.status()) || IsRefused(session.status())) return session;
      const absl::Status why = WhyOf(session.status());
      if (ClockIn(kPauseSeconds) > end) return why;
      if (Clock::now() >= told && told < end) {
        told = end;
        spdlog::info("{}: waiting for the coordinator at {}: {}", options.name, options.coordinator.target,
                     std::string(why.message()));
      }
      own.WaitUntilCancelled(kPauseSeconds);
    }
  }

  void Begin(Registration session) {
    thread = std::thread([this, session] {
      const absl::Status end = loop.Run(session);
      absl::MutexLock lock(&mutex);
      ended = true;
      status = end;
    });
  }

  absl::Status WaitUntilEnded() {
    absl::MutexLock lock(&mutex, absl::Condition(&ended));
    return status;
  }

  void Stop() {
    loop.Stop();
    absl::MutexLock lock(&join_mutex);
    if (thread.joinable()) thread.join();
  }

  const WorkerOptions options;
  const std::string boot_id;
  const std::vector<int> cores;
  ProcessLauncher launcher;
  const std::shared_ptr<grpc::Channel> channel;
  const WorkerCalls calls;
  Departure departure;
  LeaseLoop loop;
  absl::Mutex mutex;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  absl::Status status ABSL_GUARDED_BY(mutex);
  absl::Mutex join_mutex;
  std::thread thread ABSL_GUARDED_BY(join_mutex);
};

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  if (options.inventory.slots() <= 0) return absl::InvalidArgumentError("a worker needs at least one slot");
  AUTOCFG_RETURN_IF_ERROR(CheckInventorySize(options.inventory));
  AUTOCFG_ASSIGN_OR_RETURN(auto channel, OpenChannel(options.coordinator, options.insecure));
  auto impl = std::make_unique<Impl>(options, std::move(channel));
  const auto session = impl->Register();
  if (!session.ok()) {
    const absl::Status& why = session.status();
    const auto code = absl::IsDeadlineExceeded(why) ? absl::StatusCode::kUnavailable : why.code();
    return absl::Status(code, fmt::format("cannot register {} with {}: {}", options.name,
                                          options.coordinator.target, std::string(why.message())));
  }
  impl->Begin(*session);
  return std::unique_ptr<Worker>(new Worker(std::move(impl)));
}

Worker::~Worker() { Stop(); }

void Worker::Stop() { impl_->Stop(); }

std::vector<base::LoopRounds> Worker::rounds() const { return {{"lease-loop", impl_->loop.rounds()}}; }

absl::Status Worker::WaitUntilEnded() { return impl_->WaitUntilEnded(); }

}  // namespace autocfg::worker
