// The machine's resources: physical cores, memory limit, CPU, GPUs, versions. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "kernels/nvml/gpus.h"
#include "proto/convert/local_ranks.h"
#include "search/plan/cluster/cluster_spec.h"

namespace autocfg::worker {

// Returns one logical CPU per physical core that this process may use, ascending. Respects affinity, cpusets
// and CPU quotas. Throws as AllowedCpus does (base/os/cpus.h).
std::vector<int> PhysicalCores();

// Returns the minimum of physical memory and this process's cgroup limits, in bytes.
std::int64_t MemoryLimitBytes();

// Shared with the coordinator (proto/convert/local_ranks.h).
using autocfg::kGpuOverheadBytes;
using autocfg::RanksPerGpu;

// Inventory of a worker that runs ranks on the CPU, `slots` at once (0: one per physical core).
v1::Inventory LocalInventory(std::int64_t slots = 0);
// Inventory of a worker that runs ranks on `list.gpus` (`slots` = 0: one per GPU). Without GPUs: as above.
v1::Inventory LocalInventory(const GpuList& list, std::int64_t slots = 0);

// Describes `local` or `local:1xRANKS` as a cluster: CPU, ranks_per_core, and a capacity of 80% of the memory
// limit, shared by the ranks. `ranks` = 0: one per physical core. InvalidArgument if `ranks` is negative or
// too large.
absl::StatusOr<ClusterSpec> LocalCluster(std::int64_t ranks = 0);
// The same on GPUs. A rank's capacity is its share of the GPU memory (of the smallest GPU), less
// kGpuOverheadBytes. `ranks` = 0: one per GPU. InvalidArgument if the overhead of so many ranks leaves no
// memory. Without GPUs: as above.
absl::StatusOr<ClusterSpec> LocalCluster(std::int64_t ranks, const GpuList& list);

}  // namespace autocfg::worker
