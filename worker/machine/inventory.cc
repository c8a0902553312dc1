#include "worker/machine/inventory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/os/cpus.h"
#include "base/os/host.h"
#include "base/os/process.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "worker/machine/cgroup.h"

namespace autocfg::worker {
namespace {

constexpr std::int64_t kMaxRanks = 1024;

// Returns the hardware threads of `cpu`'s core, as the kernel lists them. Returns `cpu` itself if the kernel
// does not list them.
std::string SiblingsOf(int cpu) {
  const std::string dir = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    std::ifstream file(dir + name);
    std::string list;
    if (file && std::getline(file, list) && !list.empty()) return list;
  }
  return std::to_string(cpu);
}

std::string CpuFingerprint() {
  // The flags that determine which matrix-product kernel runs.
  static constexpr std::array<std::string_view, 9> kFlags = {
      "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16"};
  std::string model = "unknown CPU";
  std::string found;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line) && !line.empty();) {  // the first processor only
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (line.starts_with("model name")) model = value;
    if (line.starts_with("flags")) {
      std::set<std::string> flags;
      std::istringstream words(value);
      for (std::string word; words >> word;) flags.insert(word);
      for (const auto flag : kFlags) {
        if (flags.contains(std::string(flag))) found += fmt::format("{}{}", found.empty() ? "" : " ", flag);
      }
    }
  }
  return found.empty() ? model : fmt::format("{} ({})", model, found);
}

v1::Gpu ToProto(const GpuInfo& gpu) {
  v1::Gpu message;
  message.set_index(gpu.index);
  message.set_name(gpu.name);
  message.set_uuid(gpu.uuid);
  message.set_memory_bytes(gpu.memory_bytes);
  message.set_nvlinks(gpu.nvlinks);
  message.set_farthest(gpu.farthest);
  message.set_left_out(gpu.left_out);
  return message;
}

absl::Status CheckRanks(std::int64_t ranks) {
  if (ranks >= 0 && ranks <= kMaxRanks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} ranks on this machine; give between 1 and {}", ranks, kMaxRanks));
}

ClusterSpec LocalOf(std::int64_t ranks, NodeGroup group) {
  ClusterSpec cluster;
  cluster.name = ranks == 0 ? "local" : fmt::format("local:1x{}", ranks);
  cluster.local = true;
  cluster.groups.push_back(std::move(group));
  return cluster;
}

}  // namespace

std::vector<int> PhysicalCores() {
  std::vector<int> cores;
  std::set<std::string> seen;
  for (const int cpu : base::AllowedCpus()) {
    if (seen.insert(SiblingsOf(cpu)).second) cores.push_back(cpu);
  }
  if (const auto cpus = ReadCgroupLimits().cpus) {
    const auto whole = static_cast<std::size_t>(std::max(1.0, std::floor(*cpus + 1e-3)));
    if (cores.size() > whole) cores.resize(whole);
  }
  return cores;
}

std::int64_t MemoryLimitBytes() {
  const std::int64_t physical = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(physical, ReadCgroupLimits().memory_bytes.value_or(physical));
}

v1::Inventory LocalInventory(std::int64_t slots) {
  v1::Inventory inventory;
  const auto cores = static_cast<std::int64_t>(PhysicalCores().size());
  inventory.set_hostname(base::HostName());
  inventory.set_device_kind(std::string(Name(DeviceKind::kCpu)));
  inventory.set_device_fingerprint(CpuFingerprint());
  inventory.set_slots(slots > 0 ? slots : cores);
  inventory.set_physical_cores(cores);
  inventory.set_memory_bytes(MemoryLimitBytes());
  inventory.set_build_id(base::BuildId());
  return inventory;
}

v1::Inventory LocalInventory(const GpuList& list, std::int64_t slots) {
  v1::Inventory inventory = LocalInventory(slots);
  if (list.gpus.empty()) return inventory;
  inventory.set_device_kind(std::string(Name(DeviceKind::kCuda)));
  inventory.set_device_fingerprint(NamesOf(list, /*counted=*/false));
  inventory.set_driver(list.driver);
  if (slots <= 0) inventory.set_slots(static_cast<std::int64_t>(list.gpus.size()));
  for (const auto* gpus : {&list.gpus, &list.left_out}) {
    for (const GpuInfo& gpu : *gpus) *inventory.add_gpus() = ToProto(gpu);
  }
  return inventory;
}

absl::StatusOr<ClusterSpec> LocalCluster(std::int64_t ranks) {
  AUTOCFG_RETURN_IF_ERROR(CheckRanks(ranks));
  const auto cores = static_cast<std::int64_t>(PhysicalCores().size());
  const std::int64_t count = ranks == 0 ? std::min(cores, kMaxRanks) : ranks;
  NodeGroup group;
  group.device.name = std::string(Name(DeviceKind::kCpu));
  group.device.kind = DeviceKind::kCpu;
  // 80% of the limit, shared evenly (docs/formats.md, "Cluster").
  group.device.memory_bytes = MemoryLimitBytes() / 10 * 8 / count;
  group.nodes = 1;
  group.gpus_per_node = count;
  group.ranks_per_core = std::max(1.0, static_cast<double>(count) / static_cast<double>(cores));
  return LocalOf(ranks, std::move(group));
}

absl::StatusOr<ClusterSpec> LocalCluster(std::int64_t ranks, const GpuList& list) {
  if (list.gpus.empty()) return LocalCluster(ranks);
  AUTOCFG_RETURN_IF_ERROR(CheckRanks(ranks));
  v1::Inventory used;
  for (const GpuInfo& gpu : list.gpus) *used.add_gpus() = ToProto(gpu);
  AUTOCFG_ASSIGN_OR_RETURN(auto group, GpuRanks(used, ranks == 0 ? used.gpus_size() : ranks));
  return LocalOf(ranks, std::move(group));
}

}  // namespace autocfg::worker
