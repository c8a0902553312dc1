// The calls of a worker to its coordinator, each with its deadline. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "grpcpp/channel.h"
#include "proto/rpc/call.h"

namespace autocfg {

// What a registration gave.
struct Registration {
  std::int64_t epoch = 0;
  double lease_s = 0;  // how long a lease lasts that is not renewed
};

// Whether the same call may be answered otherwise later: the coordinator was not there, was ending, or could
// not keep what it was told (a disk that is full or read-only, a database that is damaged: server/store). The
// other statuses say what is wrong with the call itself.
bool MayPass(const absl::Status& status);

class WorkerCalls {
 public:
  // `worker`: its name, workers/{id}.
  WorkerCalls(std::shared_ptr<grpc::Channel> channel, std::string worker);

  const std::string& worker() const { return worker_; }

  absl::StatusOr<Registration> Register(const std::string& boot_id, const v1::Inventory& inventory,
                                        CallGroup& group) const;
  // Parked at the coordinator for up to `wait_s`.
  absl::StatusOr<v1::LeaseWorkResponse> LeaseWork(const Registration& session,
                                                  const std::vector<std::string>& held_leases, double wait_s,
                                                  CallGroup& group) const;
  // Parked as well. A coordinator that is away is waited for; in all no longer than `limit_s`, which is what
  // is left of the lease.
  absl::StatusOr<v1::LeaseCommand> RenewLease(const Registration& session, const v1::LeaseWorkResponse& lease,
                                              double wait_s, double limit_s, CallGroup& group) const;
  // Again and again while the coordinator is not there, until the share's barrier has run out.
  absl::StatusOr<std::vector<std::string>> Rendezvous(const v1::LeaseWorkResponse& lease,
                                                      const std::string& name, std::int64_t sequence,
                                                      const std::vector<std::string>& values,
                                                      CallGroup& group) const;
  // These wait for seconds for a coordinator that is away.
  absl::Status AppendTrialLog(const v1::LeaseWorkResponse& lease, const std::string& text,
                              CallGroup& group) const;
  // InvalidArgument, too, where it is larger than a call may be.
  absl::Status ReportTrial(const v1::ReportTrialRequest& report, CallGroup& group) const;
  // One that is away is not waited for.
  absl::Status Deregister(const Registration& session, CallGroup& group) const;

  // The pause before a call that was not answered is made again: `seconds`, or until the group is cancelled,
  // or a coordinator that was away is there again.
  void Pause(double seconds, CallGroup& group) const;

 private:
  const std::string worker_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
};

}  // namespace autocfg
