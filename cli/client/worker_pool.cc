#include "cli/client/worker_pool.h"

#include <algorithm>
#include <utility>

#include "cli/input/inputs.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/convert/local_ranks.h"
#include "search/text/cluster_json.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

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

}  // namespace

std::int64_t SlotsOf(const WorkerPool& pool, EngineDevice device) { return SlotsOf(pool.workers, device); }

absl::StatusOr<RunDevice> ChooseDevice(const WorkerPool& pool, std::optional<EngineDevice> asked,
                                       std::string_view precision) {
  if (asked && IsEmulated(*asked)) return RunDevice{.engine = *asked};
  const std::int64_t on_gpus = SlotsOf(pool, EngineDevice::kCuda);
  const EngineDevice device = asked ? *asked : DeviceOf(pool.workers, precision);
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
  auto group = LocalRanks(pool.workers, device.engine);
  if (!group.ok()) return Where("--cluster", group.status());
  group->gpus_per_node = ranks;
  cluster.groups.push_back(*std::move(group));
  return cluster;
}

absl::StatusOr<ClusterSpec> MeasuredOn(const WorkerPool& pool, const std::string& text,
                                       const ClusterSpec& cluster, const RunDevice& device) {
  if (UsesGpus(device.engine)) return MeasuredHere(text, cluster, device);
  ClusterSpec there = cluster;
  const auto most = LocalRanks(pool.workers, device.engine);
  if (!most.ok()) return Where("--cluster", most.status());
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
    memory = memory == 0 ? most->device.memory_bytes : std::min(memory, most->device.memory_bytes);
    if (there.local) group.ranks_per_core = most->ranks_per_core;
  }
  return there;
}

}  // namespace autocfg::cli
