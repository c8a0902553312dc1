// What lines of the log are about, from messages of the API. Pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "autocfg/v1/worker_service.pb.h"
#include "base/os/log_fields.h"

namespace autocfg {

// Returns the study, and the trial if it is one, of a job by its name: studies/3/trials/7 or
// studies/3/calibration. Nothing for other names.
base::LogFields FieldsOfJob(std::string_view name);

// Same, with the lease, its worker and the job's trace.
base::LogFields FieldsOfLease(const v1::LeaseWorkResponse& lease, const std::string& worker);

}  // namespace autocfg
