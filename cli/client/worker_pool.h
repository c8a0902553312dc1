// The workers of a coordinator as the machine that a search measures on, instead of this machine. Pure
// functions of the coordinator's list, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "cli/input/devices.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/cluster/engine_device.h"

namespace autocfg::cli {

struct WorkerPool {
  std::string coordinator;          // for messages
  std::vector<v1::Worker> workers;  // those that accept work
};

// Returns the number of ranks on a device that the workers run at once. kPaced runs on all of them.
std::int64_t SlotsOf(const WorkerPool& pool, EngineDevice device);

// As ChooseDevice of cli/input/devices.h, but from what the workers offer: auto is kCuda if a worker offers
// GPUs. `machine` holds all their GPUs. FailedPrecondition if no worker offers what is asked for.
absl::StatusOr<RunDevice> ChooseDevice(const WorkerPool& pool, std::optional<EngineDevice> asked,
                                       std::string_view precision);

// Returns true if --cluster is `local` or `local:NxM`.
bool IsLocalName(std::string_view cluster);

// Returns `local` (all slots of the device's workers) or `local:NxM` (N*M of them) as one node group,
// as LocalRanks (proto/convert/local_ranks.h) describes them. InvalidArgument if there are fewer slots.
absl::StatusOr<ClusterSpec> PoolCluster(const WorkerPool& pool, const RunDevice& device,
                                        const std::string& text);

// Returns a described cluster that the workers emulate, as MeasuredHere of cli/input/inputs.h does for this
// machine.
absl::StatusOr<ClusterSpec> MeasuredOn(const WorkerPool& pool, const std::string& text,
                                       const ClusterSpec& cluster, const RunDevice& device);

}  // namespace autocfg::cli
