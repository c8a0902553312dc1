// What this machine offers: physical cores, memory limit, CPU, GPUs, versions. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "kernels/nvml/gpus.h"
#include "search/plan/cluster_spec.h"

namespace autocfg {

// One logical CPU of each physical core that this process may run on, ascending (affinity, cpusets and CPU
// quotas respected). Throws what AllowedCpus does (base/os/cpus.h).
std::vector<int> PhysicalCores();

// The least of physical memory and the cgroup limits of this process, in bytes.
std::int64_t MemoryLimitBytes();

// What a rank takes of a GPU's memory beside its arena: a CUDA context, library workspaces, NCCL's buffers,
// and what the driver keeps back. An estimate, that of the presets h100-sxm and h200-sxm
// (search/data/devices); what a study's calibration measures takes its place.
inline constexpr std::int64_t kGpuOverheadBytes = std::int64_t{5} << 29;  // 2.5 GiB

// Of a worker that runs ranks on the CPU: `slots` at once (0: one per physical core).
v1::Inventory LocalInventory(std::int64_t slots = 0);
// Of a worker that runs them on `list.gpus` where there are any (slots = 0: one per GPU), else as above.
v1::Inventory LocalInventory(const GpuList& list, std::int64_t slots = 0);

// `local` or `local:1xRANKS` as a cluster: CPU, capacity 80% of the memory limit shared by the ranks,
// ranks_per_core. `ranks` = 0: one per physical core. InvalidArgument where ranks is negative or absurd.
absl::StatusOr<ClusterSpec> LocalCluster(std::int64_t ranks = 0);
// The same on GPUs: of a rank, the memory of its GPU (the least of them) shared by the ranks that it carries,
// less kGpuOverheadBytes each. `ranks` = 0: one per GPU. InvalidArgument where so many ranks leave each other
// no memory. Without GPUs: as above.
absl::StatusOr<ClusterSpec> LocalCluster(std::int64_t ranks, const GpuList& list);

// Ranks that the busiest of so many GPUs carries, when they are given out in turns.
std::int64_t RanksPerGpu(std::int64_t ranks, std::size_t gpus);

}  // namespace autocfg
