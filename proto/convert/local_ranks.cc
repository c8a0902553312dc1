#include "proto/convert/local_ranks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

// Totals of the CPU workers of one host.
struct HostTotals {
  std::int64_t slots = 0;
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
};

NodeGroup LocalCpuRanks(const std::vector<v1::Worker>& workers) {
  std::map<std::string, HostTotals> hosts;
  NodeGroup group;
  group.device.name = std::string(Name(DeviceKind::kCpu));
  group.device.kind = DeviceKind::kCpu;
  group.ranks_per_core = 1;
  for (const v1::Worker& worker : workers) {
    if (!Offers(worker, EngineDevice::kCpu)) continue;
    const v1::Inventory& inventory = worker.inventory();
    HostTotals& host = hosts[inventory.hostname().empty() ? worker.name() : inventory.hostname()];
    host.slots += inventory.slots();
    host.memory_bytes = std::min(host.memory_bytes, inventory.memory_bytes());
    const double cores = std::max<double>(1, static_cast<double>(inventory.physical_cores()));
    group.ranks_per_core = std::max(group.ranks_per_core, static_cast<double>(inventory.slots()) / cores);
  }
  group.device.memory_bytes = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, host] : hosts) {
    // 80% of the limit, shared evenly (docs/formats.md, "Cluster").
    group.device.memory_bytes = std::min(group.device.memory_bytes,
                                         host.memory_bytes / 10 * 8 / std::max<std::int64_t>(1, host.slots));
  }
  return group;
}

absl::StatusOr<NodeGroup> LocalGpuRanks(const std::vector<v1::Worker>& workers) {
  NodeGroup group;
  group.device.kind = DeviceKind::kCuda;
  group.device.memory_bytes = std::numeric_limits<std::int64_t>::max();
  group.device.overhead_bytes = kGpuOverheadBytes;
  group.ranks_per_core = 1;
  for (const v1::Worker& worker : workers) {
    if (!Offers(worker, EngineDevice::kCuda)) continue;
    const v1::Inventory& inventory = worker.inventory();
    if (std::none_of(inventory.gpus().begin(), inventory.gpus().end(),
                     [](const v1::Gpu& gpu) { return gpu.left_out().empty(); })) {
      continue;
    }
    const auto one = GpuRanks(inventory, inventory.slots());
    if (!one.ok())
      return absl::Status(one.status().code(),
                          fmt::format("{}: {}", worker.name(), std::string(one.status().message())));
    if (one->device.memory_bytes < group.device.memory_bytes) {
      group.device.memory_bytes = one->device.memory_bytes;
      group.device.name = one->device.name;
    }
    group.ranks_per_core = std::max(group.ranks_per_core, one->ranks_per_core);
  }
  return group;
}

}  // namespace

std::int64_t RanksPerGpu(std::int64_t ranks, std::size_t gpus) {
  const auto count = static_cast<std::int64_t>(gpus);
  return std::max<std::int64_t>(1, (ranks + count - 1) / count);
}

absl::StatusOr<NodeGroup> GpuRanks(const v1::Inventory& inventory, std::int64_t ranks) {
  std::size_t gpus = 0;
  const v1::Gpu* least = nullptr;
  for (const v1::Gpu& gpu : inventory.gpus()) {
    if (!gpu.left_out().empty()) continue;
    ++gpus;
    if (least == nullptr || gpu.memory_bytes() < least->memory_bytes()) least = &gpu;
  }
  if (least == nullptr) return absl::InvalidArgumentError("the inventory has no GPU that is used");
  const std::int64_t sharing = RanksPerGpu(ranks, gpus);
  if (const std::int64_t most = least->memory_bytes() / (kGpuOverheadBytes + 1); sharing > most) {
    const std::string name = least->name().empty() ? "" : fmt::format(" ({})", least->name());
    return absl::InvalidArgumentError(fmt::format(
        "{} ranks on {} GPU{}: each needs {} bytes of GPU {}{}'s {} for its overhead; give {} at most", ranks,
        gpus, gpus == 1 ? "" : "s", kGpuOverheadBytes, least->index(), name, least->memory_bytes(),
        most * static_cast<std::int64_t>(gpus)));
  }
  NodeGroup group;
  group.device.name = least->name();
  group.device.kind = DeviceKind::kCuda;
  group.device.memory_bytes = least->memory_bytes() / sharing;
  group.device.overhead_bytes = kGpuOverheadBytes;
  group.nodes = 1;
  group.gpus_per_node = ranks;
  group.ranks_per_core = static_cast<double>(sharing);
  return group;
}

bool Offers(const v1::Worker& worker, EngineDevice device) {
  const std::optional<DeviceKind> needed = NeededKind(device);
  return !needed || WorkerKind(worker.inventory()) == needed;
}

const v1::Engine* OfferedEngine(const v1::Worker& worker, std::string_view engine) {
  const auto& offered = worker.inventory().engines();
  const auto found = std::find_if(offered.begin(), offered.end(),
                                  [&](const v1::Engine& each) { return each.name() == engine; });
  return found == offered.end() ? nullptr : &*found;
}

std::vector<v1::Worker> WorkersForEngine(const std::vector<v1::Worker>& workers, std::string_view engine) {
  std::vector<v1::Worker> offering;
  for (const v1::Worker& worker : workers) {
    if (OfferedEngine(worker, engine) != nullptr) offering.push_back(worker);
  }
  return offering.empty() ? workers : offering;
}

absl::StatusOr<AxisValues> NarrowToEngine(const std::vector<std::string>& engine_space,
                                          v1::SearchSpec& spec) {
  AUTOCFG_ASSIGN_OR_RETURN(auto can, ParseAxisValues(engine_space));
  AxisValues added;
  for (auto& [name, values] : can) {
    const PlanOption* const option = FindPlanOption(name);  // an axis has several names
    const bool named =
        std::any_of(spec.space().begin(), spec.space().end(), [&, &name = name](const v1::SpaceAxis& axis) {
          return axis.name() == name || (option != nullptr && FindPlanOption(axis.name()) == option);
        });
    if (named) continue;
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(name);
    for (const std::string& value : values) axis.add_values(value);
    added.emplace_back(std::move(name), std::move(values));
  }
  return added;
}

std::int64_t SlotsOf(const std::vector<v1::Worker>& workers, EngineDevice device) {
  std::int64_t slots = 0;
  for (const v1::Worker& worker : workers) {
    if (Offers(worker, device)) slots += worker.inventory().slots();
  }
  return slots;
}

EngineDevice DeviceOf(const std::vector<v1::Worker>& workers, std::string_view precision) {
  return SlotsOf(workers, EngineDevice::kCuda) > 0 && !precision.starts_with("fp64") ? EngineDevice::kCuda
                                                                                     : EngineDevice::kCpu;
}

absl::StatusOr<NodeGroup> LocalRanks(const std::vector<v1::Worker>& workers, EngineDevice device) {
  const std::int64_t slots = SlotsOf(workers, device);
  if (slots == 0) {
    const std::string others = workers.empty() ? "it has no workers that take jobs"
                                               : fmt::format("it has {} slots on other devices",
                                                             SlotsOf(workers, EngineDevice::kPaced));
    return absl::FailedPreconditionError(
        fmt::format("no worker offers {} ({}); start autocfg-worker on a machine "
                    "that does",
                    Name(device), others));
  }
  auto group = UsesGpus(device) ? LocalGpuRanks(workers) : absl::StatusOr<NodeGroup>(LocalCpuRanks(workers));
  if (!group.ok()) return group;
  group->nodes = 1;
  group->gpus_per_node = slots;
  return group;
}

}  // namespace autocfg
