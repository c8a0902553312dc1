// What a worker may send: sizes and numbers of the requests of WorkerService. InvalidArgument names the field
// in one line. Pure functions, thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

absl::Status Check(const v1::RegisterWorkerRequest& request);
absl::Status Check(const v1::LeaseWorkRequest& request);
absl::Status Check(const v1::RenewLeaseRequest& request);
absl::Status Check(const v1::RendezvousRequest& request);
absl::Status Check(const v1::AppendTrialLogRequest& request);
// Also of a measurement that a study could not use.
absl::Status Check(const v1::ReportTrialRequest& request);
absl::Status Check(const v1::DrainWorkerRequest& request);

// wait_s, at most a minute.
absl::StatusOr<absl::Duration> WaitOf(double wait_s);

// A message that is too long is cut, at a whole character, since the outcome that it goes with must not be
// lost.
std::string Shortened(const std::string& message);

}  // namespace autocfg
