// The cluster `local` as workers offer it: one rule for a machine's own search, for the CLI with a
// coordinator and for studies that leave the groups out. Pure functions of inventories, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/cluster/engine_device.h"
#include "search/space/search_space.h"

namespace autocfg {

// Estimated GPU memory of a rank outside its arena: CUDA context, library workspaces, NCCL buffers and the
// driver's reserve. Same value as in the presets h100-sxm and h200-sxm (search/data/devices). A study's
// calibration replaces it with a measured value.
inline constexpr std::int64_t kGpuOverheadBytes = std::int64_t{5} << 29;  // 2.5 GiB

// Returns the number of ranks on the busiest GPU when `ranks` are distributed round-robin over `gpus`.
std::int64_t RanksPerGpu(std::int64_t ranks, std::size_t gpus);

// Returns a node of `ranks` ranks that share the used GPUs of an inventory, of which there is at least one. A
// rank's memory is its share of the smallest GPU. InvalidArgument if kGpuOverheadBytes of each leave none.
absl::StatusOr<NodeGroup> GpuRanks(const v1::Inventory& inventory, std::int64_t ranks);

// Returns true if a worker's ranks can measure on the device. Any can on kPaced.
bool Offers(const v1::Worker& worker, EngineDevice device);
// Returns the engine of that name that the worker offers beside the built-in one; null: it does not.
const v1::Engine* OfferedEngine(const v1::Worker& worker, std::string_view engine);
// Returns the workers that offer the engine; all of them if none does, so that a search can wait for one.
std::vector<v1::Worker> WorkersForEngine(const std::vector<v1::Worker>& workers, std::string_view engine);
// Adds what an engine can run, `engine_space` as of v1::Engine, to the axes that the specification does not
// name. Returns what it added. InvalidArgument if a text is no axis with values.
absl::StatusOr<AxisValues> NarrowToEngine(const std::vector<std::string>& engine_space, v1::SearchSpec& spec);
// Returns the number of ranks on a device that the workers run at once.
std::int64_t SlotsOf(const std::vector<v1::Worker>& workers, EngineDevice device);
// Returns kCuda if a worker offers GPUs and the precision runs there, else kCpu. An empty precision runs
// anywhere.
EngineDevice DeviceOf(const std::vector<v1::Worker>& workers, std::string_view precision);

// Returns the workers' slots on a device (kCpu, kCuda) as one node, whatever hosts they are on: links
// between ranks are measured, not described. A rank's memory is the least of any worker; workers of one host
// share its memory, of which ranks may use 80%. `ranks_per_core` is the most of any worker.
// FailedPrecondition if there are no slots; InvalidArgument as GpuRanks.
absl::StatusOr<NodeGroup> LocalRanks(const std::vector<v1::Worker>& workers, EngineDevice device);

}  // namespace autocfg
