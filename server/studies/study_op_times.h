// The op times that a study's plans are predicted from: measured, modelled, or both. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "search/cost/op_times/op_time_model.h"
#include "server/store/store.h"
#include "server/studies/search_problem.h"

namespace autocfg::server {

struct StudyOpTimes {
  std::shared_ptr<const OpTimeModel> times;
  std::int64_t device_overhead_bytes = 0;
  std::int64_t measured = 0;  // op times of the calibration
  std::int64_t reused = 0;    // of those, op times of earlier studies
};

// Returns the op times of the calibration if the problem needs one (NeedsCalibration), else those of the
// cluster's figures. Returns nothing if a calibration is needed and there is none. Errors: those of an
// invalid calibration or cluster.
absl::StatusOr<std::optional<StudyOpTimes>> OpTimesOf(const SearchProblem& problem,
                                                      const std::optional<Store::Calibration>& calibration);

}  // namespace autocfg::server
