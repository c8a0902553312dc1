#include "cli/client/worker_pool.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "cli/input/inputs.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "search/text/cluster_json.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

bool Offers(const v1::Worker& worker, EngineDevice device) {
  const std::optional<DeviceKind> needed = NeededKind(device);
  return !needed || WorkerKind(worker.inventory()) == needed;
}

GpuInfo GpuOf(const v1::Gpu& gpu) {
  GpuInfo info;
  info.index = gpu.index();
  info.name = gpu.name();
  info.uuid = gpu.uuid();
  info.memory_bytes = gpu.memory_bytes();
  info.nvlinks = gpu.nvlinks();
  info.farthest = gpu.farthest();
  info.left_out = gpu.left_out();
  return info;
}

RunDevice OnGpus(const WorkerPool& pool) {
  RunDevice device{.engine = EngineDevice::kCuda};
  for (const v1::Worker& worker : pool.workers) {
    if (!Offers(worker, EngineDevice::kCuda)) continue;
    device.machine.driver = worker.inventory().driver();
    for (const v1::Gpu& gpu : worker.inventory().gpus()) {
      if (gpu.left_out().empty()) {
        device.machine.gpus.push_back(GpuOf(gpu));
      } else {
        device.notes.push_back(
            fmt::format("{}: {} is left out: {}", worker.name(), TextOf(GpuOf(gpu)), gpu.left_out()));
      }
    }
  }
  return device;
}

// Totals of the CPU workers of one host.
struct Host {
  std::int64_t slots = 0;
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
};

// Returns a node group that describes one CPU rank of the pool: its memory and the ranks per core.
NodeGroup CpuRank(const WorkerPool& pool) {
  std::map<std::string, Host> hosts;
  NodeGroup group;
  group.device.name = std::string(Name(DeviceKind::kCpu));
  group.device.kind = DeviceKind::kCpu;
  group.nodes = 1;
  group.ranks_per_core = 1;
  for (const v1::Worker& worker : pool.workers) {
    if (!Offers(worker, EngineDevice::kCpu)) continue;
    const v1::Inventory& inventory = worker.inventory();
    Host& host = hosts[inventory.hostname().empty() ? worker.name() : inventory.hostname()];
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

// Returns the same for a GPU rank. The ranks of a worker share its GPUs round-robin.
absl::StatusOr<NodeGroup> GpuRank(const WorkerPool& pool) {
  NodeGroup group;
  group.device.kind = DeviceKind::kCuda;
  group.device.memory_bytes = std::numeric_limits<std::int64_t>::max();
  group.device.overhead_bytes = worker::kGpuOverheadBytes;
  group.nodes = 1;
  group.ranks_per_core = 1;
  for (const v1::Worker& worker : pool.workers) {
    if (!Offers(worker, EngineDevice::kCuda)) continue;
    const WorkerPool alone{.coordinator = pool.coordinator, .workers = {worker}};
    const GpuList list = OnGpus(alone).machine;
    if (list.gpus.empty()) continue;
    const auto cluster = worker::LocalCluster(worker.inventory().slots(), list);
    if (!cluster.ok()) return Where(worker.name(), cluster.status());
    const NodeGroup& one = cluster->groups.front();
    if (one.device.memory_bytes < group.device.memory_bytes) {
      group.device.memory_bytes = one.device.memory_bytes;
      group.device.name = one.device.name;
    }
    group.ranks_per_core = std::max(group.ranks_per_core, one.ranks_per_core);
  }
  return group;
}

}  // namespace

std::int64_t SlotsOf(const WorkerPool& pool, EngineDevice device) {
  std::int64_t slots = 0;
  for (const v1::Worker& worker : pool.workers) {
    if (Offers(worker, device)) slots += worker.inventory().slots();
  }
  return slots;
}

absl::StatusOr<RunDevice> ChooseDevice(const WorkerPool& pool, std::optional<EngineDevice> asked,
                                       std::string_view precision) {
  if (asked && IsEmulated(*asked)) return RunDevice{.engine = *asked};
  const std::int64_t on_gpus = SlotsOf(pool, EngineDevice::kCuda);
  const EngineDevice device = asked                                ? *asked
                              : on_gpus > 0 && precision != "fp64" ? EngineDevice::kCuda
                                                                   : EngineDevice::kCpu;
  if (SlotsOf(pool, device) == 0) {
    const std::string others =
        pool.workers.empty() ? "it has no workers that take jobs"
                             : fmt::format("it has {} slots on {}", SlotsOf(pool, EngineDevice::kPaced),
                                           Name(on_gpus > 0 ? EngineDevice::kCuda : EngineDevice::kCpu));
    return absl::FailedPreconditionError(fmt::format(
        "--coordinator: {}: no worker offers {} ({}); start autocfg-worker on a machine that does, or see "
        "autocfg workers",
        pool.coordinator, Name(device), others));
  }
  if (UsesGpus(device)) return OnGpus(pool);
  return RunDevice{.engine = device};
}

bool IsLocalName(std::string_view cluster) { return cluster.substr(0, cluster.find(':')) == "local"; }

absl::StatusOr<ClusterSpec> PoolCluster(const WorkerPool& pool, const RunDevice& device,
                                        const std::string& text) {
  const auto name = ParseClusterName(text);
  if (!name.ok()) return Where("--cluster", name.status(), "cluster");
  const std::int64_t slots = SlotsOf(pool, device.engine);
  const std::int64_t ranks = name->nodes == 0 ? slots : name->nodes * name->gpus_per_node;
  if (ranks > slots) {
    return absl::InvalidArgumentError(fmt::format(
        "--cluster: {}: {} ranks, and the workers of {} have {} slots on {}; give local:1x{}, or start more",
        text, ranks, pool.coordinator, slots, Name(device.engine), slots));
  }
  ClusterSpec cluster;
  cluster.name = name->nodes == 0 ? "local" : text;
  cluster.local = true;
  if (UsesGpus(device.engine)) {
    auto group = GpuRank(pool);
    if (!group.ok()) return Where("--cluster", group.status());
    cluster.groups.push_back(*std::move(group));
  } else {
    cluster.groups.push_back(CpuRank(pool));
  }
  cluster.groups.front().gpus_per_node = ranks;
  return cluster;
}

absl::StatusOr<ClusterSpec> MeasuredOn(const WorkerPool& pool, const std::string& text,
                                       const ClusterSpec& cluster, const RunDevice& device) {
  if (UsesGpus(device.engine)) return MeasuredHere(text, cluster, device);
  ClusterSpec there = cluster;
  const NodeGroup most = CpuRank(pool);
  there.local = cluster.groups.size() == 1 && cluster.groups.front().nodes == 1 &&
                cluster.groups.front().gpus_per_node <= SlotsOf(pool, device.engine);
  for (NodeGroup& group : there.groups) {
    if (group.device.kind != DeviceKind::kCpu) {
      return absl::InvalidArgumentError(
          fmt::format("--cluster: {}: its plans cannot be measured on the CPUs of {}'s workers; give "
                      "--predict-only, or --device paced to emulate it",
                      text, pool.coordinator));
    }
    std::int64_t& memory = group.device.memory_bytes;
    memory = memory == 0 ? most.device.memory_bytes : std::min(memory, most.device.memory_bytes);
    if (there.local) group.ranks_per_core = most.ranks_per_core;
  }
  return there;
}

}  // namespace autocfg::cli
