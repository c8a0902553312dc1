// The results of an attempt's shares as one: what a worker that ran all of the job's ranks would have said.
// Pure, thread-safe. The worker has the same for its own ranks (worker/job_runner.h).
#pragma once

#include <optional>
#include <span>

#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

// By first rank, at least one. Each step took as long as its slowest share's; of memory and of ranks per core
// or device the worst; device_s is the sum; median and interval are of the merged steps, whatever the shares
// say; losses are the first rank's; fingerprints and builds that differ are listed. Empty where the shares do
// not fit together: they timed no or different numbers of steps, or only some ran a slice.
std::optional<v1::Measurement> MergeMeasurements(std::span<const v1::Measurement> shares);

struct ShareCalibration {
  v1::CalibrateResult result;
  int ranks = 0;  // of the share; all of them timed each of its ops
};

// Op by op, in the order in which they are first named. An op that computes took the mean over the ranks, one
// that communicates as long as its slowest rank's.
v1::CalibrateResult MergeCalibrations(std::span<const ShareCalibration> shares);

}  // namespace autocfg
