#include "worker/machine/device_choice.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/numbers.h"
#include "base/os/cpus.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/gpu_engine_file.h"
#include "search/plan/cluster/engine_device.h"
#include "worker/machine/inventory.h"

namespace autocfg::worker {
namespace {

constexpr int kMostIndexes = 4096;

// The parts of a value of --devices.
struct DevicesOption {
  std::optional<DeviceKind> kind = {};      // empty: auto
  std::optional<std::string> indexes = {};  // the list after the colon, unchecked
};

// Returns nothing for a text that is not a value of --devices.
std::optional<DevicesOption> ParseDevices(const std::string& text) {
  if (text == "auto") return DevicesOption{};
  const auto colon = text.find(':');
  DevicesOption option{.kind = ParseDeviceKind(text.substr(0, colon))};
  if (!option.kind) return std::nullopt;
  if (colon != std::string::npos) option.indexes = text.substr(colon + 1);
  return option;
}

// Parses the index list of `asked`.
absl::StatusOr<std::vector<int>> IndexesOf(const std::string& asked, const std::string& list) {
  auto indexes = ParseIndexes(list);
  if (!indexes.ok())
    return absl::InvalidArgumentError(
        fmt::format("--devices: {}: {}", asked, std::string(indexes.status().message())));
  return indexes;
}

absl::StatusOr<DeviceChoice> ChooseCores(const std::string& asked, const std::string& list) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto cores, IndexesOf(asked, list));
  const std::vector<int> allowed = base::AllowedCpus();
  for (const int core : cores) {
    if (std::find(allowed.begin(), allowed.end(), core) == allowed.end())
      return absl::FailedPreconditionError(fmt::format(
          "--devices: {}: core {} does not exist or may not be used by this program", asked, core));
  }
  return DeviceChoice{.cores = cores};
}

// Returns the GPUs that `asked` names, in the order in which it names them.
absl::StatusOr<GpuList> ChooseGpus(const std::string& asked, const std::string& named, GpuList list) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto indexes, IndexesOf(asked, named));
  GpuList chosen;
  chosen.driver = list.driver;
  for (const int index : indexes) {
    const auto is_it = [index](const GpuInfo& gpu) { return gpu.index == index; };
    const auto used = std::find_if(list.gpus.begin(), list.gpus.end(), is_it);
    const auto left_out = std::find_if(list.left_out.begin(), list.left_out.end(), is_it);
    if (used != list.gpus.end()) {
      chosen.gpus.push_back(*used);
    } else if (left_out != list.left_out.end()) {
      return absl::FailedPreconditionError(
          fmt::format("--devices: {}: {} cannot be used: {}", asked, TextOf(*left_out), left_out->left_out));
    } else {
      return absl::FailedPreconditionError(fmt::format("--devices: {}: GPU {} does not exist", asked, index));
    }
  }
  return chosen;
}

DeviceChoice OnGpus(GpuList list) {
  DeviceChoice choice{.cores = PhysicalCores()};
  for (const GpuInfo& gpu : list.left_out)
    choice.notes.push_back(fmt::format("{} is left out: {}", TextOf(gpu), gpu.left_out));
  choice.gpus = std::move(list);
  return choice;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseIndexes(const std::string& text) {
  std::vector<int> indexes;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    const auto dash = part.find('-');
    const auto first = base::ParseNumber<int>(part.substr(0, dash), 0);
    const auto last =
        dash == std::string_view::npos ? first : base::ParseNumber<int>(part.substr(dash + 1), 0);
    if (!first || !last || *last < *first || *last - *first >= kMostIndexes)
      return absl::InvalidArgumentError(
          fmt::format("'{}' is not a number or a range; give a list such as 0-3,6", base::Printable(part)));
    for (int index = *first; index <= *last; ++index) {
      if (std::find(indexes.begin(), indexes.end(), index) != indexes.end())
        return absl::InvalidArgumentError(fmt::format("{} is named twice", index));
      indexes.push_back(index);
    }
  }
  return indexes;
}

absl::StatusOr<DeviceChoice> ChooseDevices(const std::string& asked, const std::string& trainer) {
  const std::optional<DevicesOption> option = ParseDevices(asked);
  if (!option) {
    return absl::InvalidArgumentError(
        fmt::format("--devices: unknown value '{}'; expected auto, cpu, cpu:CORES, cuda or cuda:INDEXES, "
                    "such as cpu:0-3,6",
                    asked));
  }
  const std::optional<std::string>& named = option->indexes;
  if (option->kind == DeviceKind::kCpu) {
    if (named) return ChooseCores(asked, *named);
    return DeviceChoice{.cores = PhysicalCores()};
  }
  GpuList list = ListGpus();
  if (!option->kind) {
    DeviceChoice cpu{.cores = PhysicalCores()};
    if (!list.gpus.empty() && !FindGpuEngine(trainer).empty()) return OnGpus(std::move(list));
    if (!list.gpus.empty())
      cpu.notes.push_back(fmt::format("on the CPU, though there is a GPU: {}", NoGpuEngine(trainer)));
    if (list.gpus.empty() && !list.left_out.empty())
      cpu.notes.push_back(fmt::format("on the CPU: {}", list.why_none));
    return cpu;
  }
  if (list.gpus.empty() && list.left_out.empty())
    return absl::FailedPreconditionError(fmt::format("--devices: {}: {}; give cpu", asked, list.why_none));
  if (named) {
    AUTOCFG_ASSIGN_OR_RETURN(list, ChooseGpus(asked, *named, std::move(list)));
  } else if (list.gpus.empty()) {
    return absl::FailedPreconditionError(fmt::format("--devices: {}: {}; give cpu", asked, list.why_none));
  }
  if (FindGpuEngine(trainer).empty())
    return absl::FailedPreconditionError(
        fmt::format("--devices: {}: {}; give cpu", asked, NoGpuEngine(trainer)));
  return OnGpus(std::move(list));
}

v1::Inventory InventoryOf(const DeviceChoice& choice, std::int64_t slots) {
  v1::Inventory inventory = LocalInventory(choice.gpus, slots);
  inventory.set_physical_cores(static_cast<std::int64_t>(choice.cores.size()));
  if (slots <= 0 && choice.gpus.gpus.empty()) inventory.set_slots(inventory.physical_cores());
  return inventory;
}

}  // namespace autocfg::worker
