// What this machine offers: physical cores, memory limit, CPU, versions. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "search/plan/cluster_spec.h"

namespace autocfg {

// One logical CPU of each physical core that this process may run on, ascending (affinity, cpusets and CPU quotas respected).
std::vector<int> PhysicalCores();

// The least of physical memory and the cgroup limits of this process, in bytes.
std::int64_t MemoryLimitBytes();

// `slots` ranks at once (0: one per physical core).
v1::Inventory LocalInventory(std::int64_t slots = 0);

// `local` or `local:1xRANKS` as a cluster: CPU, capacity 80% of the memory limit shared by the ranks, ranks_per_core. `ranks` = 0: one per physical core.
// InvalidArgument where ranks is negative or absurd.
absl::StatusOr<ClusterSpec> LocalCluster(std::int64_t ranks = 0);

}  // namespace autocfg
