// Under what op times are kept for later studies: what they depend on beside the op. Only GPUs' are: what a
// CPU takes depends on what else its machine runs. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "autocfg/v1/worker_service.pb.h"
#include "server/store/store.h"

namespace autocfg {

// A worker's part of a calibration.
struct CalibratedShare {
  v1::Inventory inventory;
  std::int64_t ranks = 0;
};

// Empty where the times are not kept: a worker is not of GPUs, or names no device or no build (one of an
// edited checkout, "-dirty", or of none, "+unknown", is no name), or they differ in these. `fewer_ranks`: the
// job's, of which a worker runs one on each GPU (worker/job_runner.h). Requires a share.
std::optional<OpTimesKey> OpTimesKeyOf(std::span<const CalibratedShare> shares, bool fewer_ranks);

// Of the shares that the job would be given by placement if all that may take it were idle. Empty as above,
// and where they cannot take it. All workers of GPUs that are active and do not drain must be alike, since
// any of them may be given it.
std::optional<OpTimesKey> OpTimesKeyFor(const v1::Job& job, std::span<const WorkerRecord> workers);

}  // namespace autocfg
