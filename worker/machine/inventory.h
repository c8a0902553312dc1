// The machine's resources: physical cores, memory limit, CPU, GPUs, versions. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "kernels/nvml/gpus.h"
#include "search/plan/cluster_spec.h"

namespace autocfg::worker {

// Returns one logical CPU per physical core that this process may use, ascending. Respects affinity, cpusets
// and CPU quotas. Throws as AllowedCpus does (base/os/cpus.h).
std::vector<int> PhysicalCores();

// Returns the minimum of physical memory and this process's cgroup limits, in bytes.
std::int64_t MemoryLimitBytes();

// Estimated GPU memory of a rank outside its arena: CUDA context, library workspaces, NCCL buffers and the
// driver's reserve. Same value as in the presets h100-sxm and h200-sxm (search/data/devices). A study's
// calibration replaces it with a measured value.
inline constexpr std::int64_t kGpuOverheadBytes = std::int64_t{5} << 29;  // 2.5 GiB

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

// Returns the number of ranks on the busiest GPU when `ranks` are distributed round-robin over `gpus`.
std::int64_t RanksPerGpu(std::int64_t ranks, std::size_t gpus);

}  // namespace autocfg::worker
