// A worker's calls to its coordinator, each with a deadline. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "grpcpp/channel.h"
#include "proto/rpc/call.h"

namespace autocfg::worker {

// Result of a registration.
struct Registration {
  std::int64_t epoch = 0;
  double lease_s = 0;  // lease duration without renewal
};

// Returns true if the same call may succeed later: the coordinator was unavailable, was shutting down, could
// not store data (disk full or read-only, database damaged: server/store), or refused the worker's token,
// which may be replaced. Other statuses describe an error in the call itself.
bool MayPass(const absl::Status& status);

class WorkerCalls {
 public:
  static constexpr double kCallSeconds = 5;  // deadline of a short call

  // `worker`: its name, workers/{id}. `token_file`: that of the channel's token, for messages; empty: none.
  WorkerCalls(std::shared_ptr<grpc::Channel> channel, std::string worker, std::string token_file = "");

  const std::string& worker() const { return worker_; }
  const std::string& token_file() const { return token_file_; }

  // By default, waits some seconds for an unavailable coordinator. A call that does not wait says why.
  absl::StatusOr<Registration> Register(const std::string& boot_id, const v1::Inventory& inventory,
                                        CallGroup& group,
                                        const CallOptions& options = {.deadline_s = kCallSeconds,
                                                                      .wait_for_ready = true}) const;
  // The coordinator parks this call for up to `wait_s`. `leaves_in_s`: it gives no job that may last longer.
  absl::StatusOr<v1::LeaseWorkResponse> LeaseWork(const Registration& session,
                                                  const std::vector<std::string>& held_leases, double wait_s,
                                                  std::optional<double> leaves_in_s, CallGroup& group) const;
  // Parked too. Waits for an unavailable coordinator a little longer than `wait_s`, but in total no longer
  // than `limit_s`.
  absl::StatusOr<v1::LeaseCommand> RenewLease(const Registration& session, const v1::LeaseWorkResponse& lease,
                                              double wait_s, double limit_s, CallGroup& group) const;
  // Retries for as long as the coordinator is unavailable; whoever loses the lease cancels `group`.
  // DeadlineExceeded: the other workers did not join within the share's barrier time.
  absl::StatusOr<std::vector<std::string>> Rendezvous(const v1::LeaseWorkResponse& lease,
                                                      const std::string& name, std::int64_t sequence,
                                                      const std::vector<std::string>& values,
                                                      CallGroup& group) const;
  // Does not wait for an unavailable coordinator: later progress replaces what is not delivered. `timed`: op
  // times of a calibration that are not delivered yet.
  absl::Status ReportProgress(const v1::LeaseWorkResponse& lease, const v1::Progress& progress,
                              const v1::CalibrateResult& timed, CallGroup& group) const;
  // AppendTrialLog and ReportTrial wait some seconds for an unavailable coordinator.
  absl::Status AppendTrialLog(const v1::LeaseWorkResponse& lease, const std::string& text,
                              CallGroup& group) const;
  // Also returns InvalidArgument if the report exceeds the message size limit.
  absl::Status ReportTrial(const v1::ReportTrialRequest& report, CallGroup& group) const;
  // Does not wait for an unavailable coordinator.
  absl::Status Deregister(const Registration& session, CallGroup& group) const;

  // Pauses before an unanswered call is retried. Returns after `seconds`, when the group is cancelled, or
  // when an unavailable coordinator is reachable again.
  void Pause(double seconds, CallGroup& group) const;

 private:
  const std::string worker_;
  const std::string token_file_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
};

}  // namespace autocfg::worker
