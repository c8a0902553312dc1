// Merges what was measured of one job or of one plan. Pure, thread-safe. A worker merges its ranks
// (worker/jobs/job_runner.h), the coordinator the workers of a job that spans several; the result equals that
// of one worker with all the ranks. A search pools the trials of a plan.
// docs/architecture.md, "Forms of a measurement", has the types.
#pragma once

#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "autocfg/v1/trainer.pb.h"

namespace autocfg {

// Merges the ranks of one run. `ranks` is ordered by rank and not empty.
//
// - step time: the slowest rank's, for each step
// - losses, gradient norms, slice: the first rank's; they are the same on every rank
// - planned memory: the regions of the rank with the largest total; other memory: the maximum
// - trace: the rows of all ranks; timeline: the same, in order of time (MergeTimelines)
// - breakdown: that of the rank with the longest compute, recomputation and tensor communication
//
// Internal, with the rank, if ranks timed different numbers of steps or only some ran a slice.
absl::StatusOr<v1::TrainResult> MergeRanks(std::span<const v1::TrainResult> ranks);

// Returns the measurement of a run from its merged result. Sets what follows from it: step times, median,
// interval, memory, first and last loss, slice, breakdown. The rest is the caller's. Returns nullopt if no
// step was timed.
std::optional<v1::Measurement> MeasurementOf(const v1::TrainResult& run);

// Merges the measurements of the workers' shares of one run. `shares` is ordered by rank and not empty.
//
// - step time: the slowest share's, for each step. With another engine than the built-in one, shares whose
//   log tells of no step are left out, and of the others the last steps count, as many as each tells of
// - median and confidence interval: of the merged steps; those of the shares are ignored. For a single step,
//   which shows no spread, the interval is the step time itself
// - memory, ranks per core and ranks per device: the maximum
// - device_s: the sum
// - losses: the first rank's
// - breakdown: as of the ranks of one run
// - device fingerprints, build IDs, versions of the engine: every distinct value
//
// Returns nullopt if the shares do not match: no timed steps, different step counts, or only some ran a
// slice.
std::optional<v1::Measurement> MergeMeasurements(std::span<const v1::Measurement> shares);

// Pools the measurements of several trials of one plan. `trials` is in order of time and not empty.
//
// - step times: those of all trials; median and confidence interval: of these
// - memory: the maximum
// - device_s: the sum
// - breakdown: of the last trial that has one
// - the rest: the last trial's
v1::Measurement PoolTrials(std::span<const v1::Measurement> trials);

struct ShareCalibration {
  v1::CalibrateResult result;
  int ranks = 0;  // of the share; each timed every op of the share
};

// Merges op by op, in order of first appearance. The time of a compute op is the mean over the ranks, that of
// a communication op is the slowest rank's.
v1::CalibrateResult MergeCalibrations(std::span<const ShareCalibration> shares);

}  // namespace autocfg
