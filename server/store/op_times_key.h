// Cache keys for reusing op times and measured trials across studies: everything that they depend on besides
// the op, or the work. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "autocfg/v1/worker_service.pb.h"
#include "server/store/records.h"

namespace autocfg::server {

// Where a share of a calibration runs or ran.
struct MachineShare {
  v1::Inventory inventory;
  std::int64_t ranks = 0;
};

// Returns true if a build ID names sources that do not change: no "-dirty" or "+unknown" one, nor an empty
// one.
bool NamesOneRevision(std::string_view build);

// Returns the key for the times of these shares. Those of GPUs hold wherever there are such GPUs, for a year.
// Those of a CPU depend on the machine, its memory and its other load: they hold on that host, for a day.
//
// Returns nullopt if they cannot be reused: a worker has no device name or no build ID that
// names one revision, or workers differ in these. `fewer_ranks` is the job's; such a job runs
// one rank per GPU (worker/jobs/job_runner.h). Requires a share.
std::optional<OpTimesKey> OpTimesKeyOf(std::span<const MachineShare> shares, bool fewer_ranks);

// Returns the key for the shares that placement would give the job if all eligible workers were idle. Returns
// nullopt as above, and if they cannot run the job. All active workers of the kind that do not
// drain must be alike, because any of them may get the job.
std::optional<OpTimesKey> OpTimesKeyFor(const v1::Job& job, std::span<const WorkerRecord> workers);

// Returns what a training job measures: equal texts mean equal work, besides the numbers of its steps.
std::string WorkOf(const v1::Job& job);

}  // namespace autocfg::server
