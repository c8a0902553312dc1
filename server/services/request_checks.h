// Validates the requests of the services: sizes and numbers. InvalidArgument names the field in one line.
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::server {

absl::Status Check(const v1::RegisterWorkerRequest& request);
absl::Status Check(const v1::LeaseWorkRequest& request);
absl::Status Check(const v1::RenewLeaseRequest& request);
absl::Status Check(const v1::RendezvousRequest& request);
absl::Status Check(const v1::ReportProgressRequest& request);
absl::Status Check(const v1::AppendTrialLogRequest& request);
// Also rejects measurements that a study could not use.
absl::Status Check(const v1::ReportTrialRequest& request);
absl::Status Check(const v1::DrainWorkerRequest& request);

// Converts wait_s; at most a minute.
absl::StatusOr<absl::Duration> WaitOf(double wait_s);

// A longer message of a report is cut instead of rejected, because its outcome must not be lost.
inline constexpr std::size_t kMaxMessageBytes = 16 << 10;

}  // namespace autocfg::server
