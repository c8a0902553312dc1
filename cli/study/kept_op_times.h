// Op times of this machine that searches have kept in the database, predictions from them, and what is said
// of them. The database is read without a lock, and no study is created. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

// Returns the note of a search that calibrates on a build whose op times no later search can use; empty: it
// can. `whose`: "this build", or that of a worker.
std::string NoReuseNote(std::string_view whose, const std::string& build_id);

// Returns what an unfinished study of this process and build keeps: "study 3 keeps its measurements".
std::string KeptText(const v1::Study& study, const std::string& build_id);

}  // namespace autocfg::cli
