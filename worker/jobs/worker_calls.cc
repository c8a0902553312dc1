#include "worker/jobs/worker_calls.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"

namespace autocfg::worker {
namespace {

using Stub = v1::WorkerService::Stub;

constexpr double kLogSeconds = 3;       // a worker that ends calls twice more within its 15 s
constexpr double kProgressSeconds = 2;  // deadline: the next one follows soon
constexpr double kDefaultBarrierSeconds = 30;
constexpr double kFirstPauseSeconds = 0.1;
constexpr double kLongestPauseSeconds = 2;

// Extra reply time of a renewal beyond its wait. Long enough for a busy coordinator, and short enough for a
// second attempt before the lease expires.
double RenewalSlack(double lease_s) { return std::max(lease_s / 6, std::min(2.0, lease_s / 3)); }

}  // namespace

bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnauthenticated:  // until the file of the token has another
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:  // by a coordinator that shuts down
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kResourceExhausted:  // its disk is full, or it has too many calls
    case absl::StatusCode::kPermissionDenied:   // as above, or it cannot write to its database
    case absl::StatusCode::kDataLoss: return true;
    default: return false;
  }
}

WorkerCalls::WorkerCalls(std::shared_ptr<grpc::Channel> channel, std::string worker, std::string token_file)
    : worker_(std::move(worker)),
      token_file_(std::move(token_file)),
      channel_(std::move(channel)),
      stub_(v1::WorkerService::NewStub(channel_)) {}

absl::StatusOr<Registration> WorkerCalls::Register(const std::string& boot_id, const v1::Inventory& inventory,
                                                   CallGroup& group, const CallOptions& options) const {
  v1::RegisterWorkerRequest request;
  request.set_worker(worker_);
  request.set_boot_id(boot_id);
  *request.mutable_inventory() = inventory;
  v1::RegisterWorkerResponse response;
  AUTOCFG_RETURN_IF_ERROR(Call(*stub_, &Stub::RegisterWorker, request, response, group, options));
  if (!(response.lease_duration_s() > 0))
    return absl::InternalError("the coordinator granted leases without a duration");
  return Registration{response.session_epoch(), response.lease_duration_s()};
}

absl::StatusOr<v1::LeaseWorkResponse> WorkerCalls::LeaseWork(const Registration& session,
                                                             const std::vector<std::string>& held_leases,
                                                             double wait_s, std::optional<double> leaves_in_s,
                                                             CallGroup& group) const {
  v1::LeaseWorkRequest request;
  request.set_worker(worker_);
  request.set_session_epoch(session.epoch);
  request.set_wait_s(wait_s);
  request.set_lists_held_leases(true);
  request.mutable_held_leases()->Assign(held_leases.begin(), held_leases.end());
  if (leaves_in_s) request.set_leaves_in_s(*leaves_in_s);
  v1::LeaseWorkResponse response;
  AUTOCFG_RETURN_IF_ERROR(
      Call(*stub_, &Stub::LeaseWork, request, response, group, {.deadline_s = wait_s + kCallSeconds}));
  return response;
}

absl::StatusOr<v1::LeaseCommand> WorkerCalls::RenewLease(const Registration& session,
                                                         const v1::LeaseWorkResponse& lease, double wait_s,
                                                         double limit_s, CallGroup& group) const {
  v1::RenewLeaseRequest request;
  request.set_worker(worker_);
  request.set_session_epoch(session.epoch);
  request.set_lease_id(lease.lease_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_wait_s(wait_s);
  v1::RenewLeaseResponse response;
  AUTOCFG_RETURN_IF_ERROR(Call(
      *stub_, &Stub::RenewLease, request, response, group,
      {.deadline_s = std::min(wait_s + RenewalSlack(session.lease_s), limit_s), .wait_for_ready = true}));
  return response.command();
}

absl::StatusOr<std::vector<std::string>> WorkerCalls::Rendezvous(const v1::LeaseWorkResponse& lease,
                                                                 const std::string& name,
                                                                 std::int64_t sequence,
                                                                 const std::vector<std::string>& values,
                                                                 CallGroup& group) const {
  v1::RendezvousRequest request;
  request.set_lease_id(lease.lease_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_name(name);
  request.set_sequence(sequence);
  request.mutable_values()->Assign(values.begin(), values.end());
  const double barrier_s = lease.share().barrier_s() > 0 ? lease.share().barrier_s() : kDefaultBarrierSeconds;
  for (double pause_s = kFirstPauseSeconds;; pause_s = std::min(kLongestPauseSeconds, pause_s * 2)) {
    v1::RendezvousResponse response;
    const absl::Status status =
        Call(*stub_, &Stub::Rendezvous, request, response, group, {.deadline_s = barrier_s + kCallSeconds});
    if (status.ok()) return std::vector<std::string>(response.values().begin(), response.values().end());
    // A coordinator that shuts down cancels parked calls.
    if (!absl::IsUnavailable(status) && !absl::IsCancelled(status)) return status;
    Pause(pause_s, group);
    if (group.cancelled()) return status;
  }
}

absl::Status WorkerCalls::ReportProgress(const v1::LeaseWorkResponse& lease, const v1::Progress& progress,
                                         const v1::CalibrateResult& timed, CallGroup& group) const {
  v1::ReportProgressRequest request;
  request.set_lease_id(lease.lease_id());
  request.set_fencing_token(lease.fencing_token());
  *request.mutable_progress() = progress;
  request.mutable_progress()->clear_op_times();  // of one rank
  if (!timed.ops().empty()) *request.mutable_calibration() = timed;
  v1::ReportProgressResponse response;
  return Call(*stub_, &Stub::ReportProgress, request, response, group, {.deadline_s = kProgressSeconds});
}

absl::Status WorkerCalls::AppendTrialLog(const v1::LeaseWorkResponse& lease, const std::string& text,
                                         CallGroup& group) const {
  v1::AppendTrialLogRequest request;
  request.set_lease_id(lease.lease_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_text(text);
  v1::AppendTrialLogResponse response;
  return Call(*stub_, &Stub::AppendTrialLog, request, response, group,
              {.deadline_s = kLogSeconds, .wait_for_ready = true});
}

absl::Status WorkerCalls::ReportTrial(const v1::ReportTrialRequest& report, CallGroup& group) const {
  // gRPC would fail with RESOURCE_EXHAUSTED on every retry.
  if (report.ByteSizeLong() > static_cast<std::size_t>(kMaxSentBytes)) {
    return absl::InvalidArgumentError(
        fmt::format("it has {} bytes; the limit of a call is {}", report.ByteSizeLong(), kMaxSentBytes));
  }
  v1::ReportTrialResponse response;
  return Call(*stub_, &Stub::ReportTrial, report, response, group,
              {.deadline_s = kCallSeconds, .wait_for_ready = true});
}

absl::Status WorkerCalls::Deregister(const Registration& session, CallGroup& group) const {
  v1::DeregisterWorkerRequest request;
  request.set_worker(worker_);
  request.set_session_epoch(session.epoch);
  v1::DeregisterWorkerResponse response;
  return Call(*stub_, &Stub::DeregisterWorker, request, response, group, {.deadline_s = kCallSeconds});
}

void WorkerCalls::Pause(double seconds, CallGroup& group) const {
  PauseBeforeRetry(*channel_, seconds, [&] { return group.cancelled(); });
}

}  // namespace autocfg::worker
