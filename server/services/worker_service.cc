#include "server/services/worker_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "server/resource_names.h"
#include "server/sched/job_wait.h"
#include "server/services/status.h"

namespace autocfg {
namespace {

constexpr double kLongestWait = 60;
constexpr std::size_t kMaxText = 200;  // of ids
constexpr std::size_t kMaxMessage = 16 << 10;
constexpr std::size_t kMaxLog = 64 << 10;  // of one call
constexpr std::int64_t kMostSlots = 1 << 20;

absl::Status Missing(const char* field) {
  return absl::InvalidArgumentError(fmt::format("{} is missing", field));
}

absl::Status CheckText(const char* field, const std::string& text, std::size_t most = kMaxText) {
  if (text.empty()) return Missing(field);
  if (text.size() > most)
    return absl::InvalidArgumentError(fmt::format("{} is longer than {} bytes", field, most));
  return absl::OkStatus();
}

template <typename... Rest>
absl::Status First(absl::Status first, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first.ok() ? First(std::move(rest)...) : first;
  }
}

absl::Status Check(const v1::RegisterWorkerRequest& request) {
  if (absl::Status status = First(CheckWorkerName(request.worker()), CheckText("boot_id", request.boot_id()));
      !status.ok()) {
    return status;
  }
  if (!request.has_inventory()) return Missing("inventory");
  if (request.inventory().slots() < 1 || request.inventory().slots() > kMostSlots) {
    return absl::InvalidArgumentError(fmt::format("inventory.slots is {}; it must be from 1 to {}",
                                                  request.inventory().slots(), kMostSlots));
  }
  return absl::OkStatus();
}

// A measurement that a study could not use is refused here, with the name of its field.
absl::Status Check(const v1::Measurement& m) {
  const auto positive = [](double value) { return std::isfinite(value) && value > 0; };
  const auto not_negative = [](double value) { return std::isfinite(value) && value >= 0; };
  for (const double step : m.step_time_s()) {
    if (!positive(step))
      return absl::InvalidArgumentError(fmt::format("measurement.step_time_s: {} is not a time", step));
  }
  if (!m.step_time_s().empty() && !positive(m.median_step_time_s())) {
    return absl::InvalidArgumentError(
        fmt::format("measurement.median_step_time_s: {} is not a time", m.median_step_time_s()));
  }
  if (!not_negative(m.ci95_s()))
    return absl::InvalidArgumentError("measurement.ci95_s is negative or no number");
  if (!not_negative(m.device_s()))
    return absl::InvalidArgumentError("measurement.device_s is negative or no number");
  if (m.planned_memory_bytes() < 0)
    return absl::InvalidArgumentError("measurement.planned_memory_bytes is negative");
  if (m.peak_memory_bytes() < 0)
    return absl::InvalidArgumentError("measurement.peak_memory_bytes is negative");
  if (m.device_overhead_bytes() < 0)
    return absl::InvalidArgumentError("measurement.device_overhead_bytes is negative");
  return absl::OkStatus();
}

absl::Status Check(const v1::ReportTrialRequest& request) {
  if (absl::Status status =
          First(CheckWorkerName(request.worker()), CheckText("lease_id", request.lease_id()),
                CheckText("request_id", request.request_id()));
      !status.ok()) {
    return status;
  }
  if (request.outcome() == v1::OUTCOME_UNSPECIFIED) return Missing("outcome");
  if (!v1::Outcome_IsValid(request.outcome())) return absl::InvalidArgumentError("outcome is unknown");
  if (request.outcome() == v1::OUTCOME_MEASURED && !request.has_measurement() && !request.has_calibration()) {
    return absl::InvalidArgumentError("measurement and calibration are missing, and the outcome is MEASURED");
  }
  if (request.has_measurement()) {
    if (absl::Status status = Check(request.measurement()); !status.ok()) return status;
  }
  if (request.calibration().device_overhead_bytes() < 0)
    return absl::InvalidArgumentError("calibration.device_overhead_bytes is negative");
  for (const v1::OpTime& time : request.calibration().ops()) {
    if (!std::isfinite(time.seconds()) || time.seconds() <= 0) {
      return absl::InvalidArgumentError(
          fmt::format("calibration.ops: {} s of {} is not a time", time.seconds(), time.op().kind()));
    }
  }
  return absl::OkStatus();
}

// Whole characters only: a message is cut where it is too long, since the outcome that it goes with must not
// be lost.
std::string Shortened(const std::string& text) {
  if (text.size() <= kMaxMessage) return text;
  std::size_t end = kMaxMessage;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

WorkerServiceImpl::WorkerServiceImpl(Store& store, Notifier& notifier, Clock clock, double lease_duration_s)
    : store_(store), notifier_(notifier), clock_(std::move(clock)), lease_duration_s_(lease_duration_s) {}

grpc::Status WorkerServiceImpl::RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest* request,
                                               v1::RegisterWorkerResponse* response) {
  if (absl::Status status = Check(*request); !status.ok()) return ToGrpc(status);
  const auto epoch = store_.RegisterWorker(*request, clock_());
  if (!epoch.ok()) return ToGrpc(epoch.status());
  response->set_worker(request->worker());
  response->set_session_epoch(*epoch);
  response->set_lease_duration_s(lease_duration_s_);
  return grpc::Status::OK;
}

grpc::Status WorkerServiceImpl::LeaseWork(grpc::ServerContext* context, const v1::LeaseWorkRequest* request,
                                          v1::LeaseWorkResponse* response) {
  if (absl::Status status = CheckWorkerName(request->worker()); !status.ok()) return ToGrpc(status);
  if (!std::isfinite(request->wait_s()) || request->wait_s() < 0) {
    return ToGrpc(absl::InvalidArgumentError("wait_s is negative or no number"));
  }
  JobWait wait;
  wait.worker = request->worker();
  wait.session_epoch = request->session_epoch();
  wait.wait = absl::Seconds(std::min(request->wait_s(), kLongestWait));
  wait.lease_duration_s = lease_duration_s_;
  wait.given_up = [context] { return context->IsCancelled(); };
  auto lease = WaitForJob(store_, notifier_, clock_, wait);
  if (!lease.ok()) return ToGrpc(lease.status());
  if (!lease->has_value()) return grpc::Status::OK;
  *response->mutable_job() = std::move((*lease)->job);
  response->set_lease_id((*lease)->lease_id);
  response->set_fencing_token((*lease)->fencing_token);
  return grpc::Status::OK;
}

grpc::Status WorkerServiceImpl::RenewLease(grpc::ServerContext*, const v1::RenewLeaseRequest* request,
                                           v1::RenewLeaseResponse* response) {
  if (absl::Status status =
          First(CheckWorkerName(request->worker()), CheckText("lease_id", request->lease_id()));
      !status.ok()) {
    return ToGrpc(status);
  }
  const auto command = store_.RenewLease(request->worker(), request->session_epoch(), request->lease_id(),
                                         request->fencing_token(), clock_(), lease_duration_s_);
  if (!command.ok()) return ToGrpc(command.status());
  response->set_command(*command);
  return grpc::Status::OK;
}

grpc::Status WorkerServiceImpl::AppendTrialLog(grpc::ServerContext*, const v1::AppendTrialLogRequest* request,
                                               v1::AppendTrialLogResponse*) {
  if (absl::Status status =
          First(CheckText("lease_id", request->lease_id()), CheckText("text", request->text(), kMaxLog));
      !status.ok()) {
    return ToGrpc(status);
  }
  return ToGrpc(store_.AppendLog(request->lease_id(), request->fencing_token(), request->text()));
}

grpc::Status WorkerServiceImpl::ReportTrial(grpc::ServerContext*, const v1::ReportTrialRequest* request,
                                            v1::ReportTrialResponse*) {
  if (absl::Status status = Check(*request); !status.ok()) return ToGrpc(status);
  Report report;
  report.worker = request->worker();
  report.session_epoch = request->session_epoch();
  report.lease_id = request->lease_id();
  report.fencing_token = request->fencing_token();
  report.attempt = request->attempt();
  report.request_id = request->request_id();
  report.outcome = request->outcome();
  report.message = Shortened(request->message());
  if (request->has_measurement()) {
    report.measurement = request->measurement();
    report.device_overhead_bytes = request->measurement().device_overhead_bytes();
  }
  if (request->has_calibration()) {
    report.calibration = request->calibration();
    report.device_overhead_bytes = request->calibration().device_overhead_bytes();
  }
  if (request->has_out_of_memory()) report.out_of_memory = request->out_of_memory();
  return ToGrpc(store_.Report(report, clock_()));
}

grpc::Status WorkerServiceImpl::DeregisterWorker(grpc::ServerContext*,
                                                 const v1::DeregisterWorkerRequest* request,
                                                 v1::DeregisterWorkerResponse*) {
  if (absl::Status status = CheckWorkerName(request->worker()); !status.ok()) return ToGrpc(status);
  return ToGrpc(store_.DeregisterWorker(request->worker(), request->session_epoch(), clock_()));
}

grpc::Status WorkerServiceImpl::Rendezvous(grpc::ServerContext*, const v1::RendezvousRequest*,
                                           v1::RendezvousResponse*) {
  return NotSupportedYet("Rendezvous: a job that spans workers");
}

grpc::Status WorkerServiceImpl::DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest*,
                                            v1::DrainWorkerResponse*) {
  return NotSupportedYet("DrainWorker");
}

}  // namespace autocfg
