// Whether what a worker says it measured is what its job asked for. Pure, thread-safe.
#pragma once

#include "absl/status/status.h"
#include "server/store/store.h"

namespace autocfg {

// Of a report of a result (MEASURED). InvalidArgument, in one line, where it lacks the job's result; of a
// training job, where a slice stands for all ranks or the other way round, or not each timed step has its
// time; of a calibration, where its ops are not those asked for, each once.
absl::Status CheckFits(const autocfg::v1::Job& asked, const Report& report);

}  // namespace autocfg
