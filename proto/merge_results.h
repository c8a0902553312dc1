// What ranks or workers have measured of one job, as one. Pure, thread-safe. A worker merges its ranks with
// it (worker/job_runner.h), the coordinator the workers of a job that spans several: so that what they say
// together is what one worker with all of the ranks would have said.
#pragma once

#include <optional>
#include <span>

#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

// Of ranks or of workers' shares: by rank, at least one. Each step took as long as its slowest share's; of
// memory and of ranks per core or device the worst; device_s is the sum; median and interval are of the
// merged steps, whatever the shares say; losses are the first rank's; fingerprints and builds that differ are
// listed. Empty where the shares do not fit together: they timed no or different numbers of steps, or only
// some ran a slice.
std::optional<v1::Measurement> MergeMeasurements(std::span<const v1::Measurement> shares);

struct ShareCalibration {
  v1::CalibrateResult result;
  int ranks = 0;  // of the share; all of them timed each of its ops
};

// Op by op, in the order in which they are first named. An op that computes took the mean over the ranks, one
// that communicates as long as its slowest rank's.
v1::CalibrateResult MergeCalibrations(std::span<const ShareCalibration> shares);

}  // namespace autocfg
