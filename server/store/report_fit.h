// Checks that a worker's result is what its job asked for. Pure, thread-safe.
#pragma once

#include "absl/status/status.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::server {

// Checks a report with a result (MEASURED). Returns InvalidArgument, in one line, if the job's result is
// missing or does not fit:
//
// - training job: a slice instead of all ranks or the reverse, or not one time per timed step
// - calibration: its ops are not exactly those asked for, each once
absl::Status CheckFits(const autocfg::v1::Job& asked, const autocfg::v1::ReportTrialRequest& report);

}  // namespace autocfg::server
