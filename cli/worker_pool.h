// The workers of a coordinator as what a search measures on: in place of this machine. Pure functions of what
// the coordinator lists, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "cli/devices.h"
#include "search/plan/cluster_spec.h"

namespace autocfg {

struct WorkerPool {
  std::string coordinator;          // for messages
  std::vector<v1::Worker> workers;  // those that take work
};

// Ranks that the workers of a device ("cpu", "cuda") run at once; "paced" runs on all of them.
std::int64_t SlotsOf(const WorkerPool& pool, std::string_view device);

// As ChooseDevice of cli/devices.h, of what the workers offer: auto is cuda where one offers GPUs. `machine`
// has all their GPUs. FailedPrecondition where none offers what is asked for.
absl::StatusOr<RunDevice> ChooseDevice(const WorkerPool& pool, const std::string& asked,
                                       std::string_view precision);

// Whether --cluster says `local` or `local:NxM`.
bool IsLocalName(std::string_view cluster);

// `local` (all slots of the device's workers) or `local:NxM` (N*M of them) as one node group, whichever nodes
// they are on: how ranks are linked is measured, not described. A rank's memory is the least that any of the
// workers has for each of its slots, as LocalCluster (worker/inventory.h) counts it; workers of one host
// share its memory. InvalidArgument where there are fewer slots.
absl::StatusOr<ClusterSpec> PoolCluster(const WorkerPool& pool, const RunDevice& device,
                                        const std::string& text);

// A described cluster that the workers stand for, as MeasuredHere of cli/inputs.h has it for this machine.
absl::StatusOr<ClusterSpec> MeasuredOn(const WorkerPool& pool, const std::string& text,
                                       const ClusterSpec& cluster, const RunDevice& device);

}  // namespace autocfg
