// Merges what several ranks or workers measured of one job. Pure, thread-safe. A worker merges its ranks
// (worker/jobs/job_runner.h); the coordinator merges the workers of a job that spans several. The result
// equals that of one worker with all the ranks.
#pragma once

#include <optional>
#include <span>

#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

// Merges the measurements of ranks or of workers' shares. `shares` is ordered by rank and not empty.
//
// - step time: the slowest share's, for each step
// - median and confidence interval: of the merged steps; those of the shares are ignored
// - memory, ranks per core and ranks per device: the maximum
// - device_s: the sum
// - losses: the first rank's
// - device fingerprints and build IDs: every distinct value
//
// Returns nullopt if the shares do not match: no timed steps, different step counts, or only some ran a
// slice.
std::optional<v1::Measurement> MergeMeasurements(std::span<const v1::Measurement> shares);

struct ShareCalibration {
  v1::CalibrateResult result;
  int ranks = 0;  // of the share; each timed every op of the share
};

// Merges op by op, in order of first appearance. The time of a compute op is the mean over the ranks, that of
// a communication op is the slowest rank's.
v1::CalibrateResult MergeCalibrations(std::span<const ShareCalibration> shares);

}  // namespace autocfg
