// Op times of this machine that searches have kept in the database, and predictions from them. The database
// is read without a lock, and no study is created. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "kernels/nvml/gpus.h"
#include "search/planner/planning.h"
#include "server/store/store.h"

namespace autocfg::cli {

// Returns all op times that hold now for `ranks` ranks at once on the GPUs of `machine`, or on the CPU if it
// has none, by this build. `database`: --db, or empty. FailedPrecondition if there are none; the message says
// why, and not how to get them. Other errors as of OpenSqliteStoreReadOnly.
absl::StatusOr<server::Store::Calibration> KeptOpTimes(const std::string& database, const GpuList& machine,
                                                       std::int64_t ranks);

// Answers a search by prediction of this machine. Returns nothing if an op that the search times is not kept,
// or the database cannot be read: the search then measures it. Cancelled once `watch` says no. Other errors:
// those of the specification.
absl::StatusOr<std::optional<v1::Recommendation>> PredictFromKeptOpTimes(const std::string& database,
                                                                         const GpuList& machine,
                                                                         const v1::SearchSpec& spec,
                                                                         const PlanningWatch& watch);

}  // namespace autocfg::cli
