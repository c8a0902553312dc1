#include "kernels/nvml/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/numbers.h"
#include "kernels/nvml/nvml_session.h"

namespace autocfg {
namespace {

std::optional<std::string> VisibleDevices() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string_view Trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Returns the GPU that an entry of CUDA_VISIBLE_DEVICES identifies, if exactly one does.
std::optional<std::size_t> PlaceOf(std::string_view entry, const std::vector<std::string>& uuids) {
  if (entry.starts_with("GPU-")) {
    const auto matches = [entry](const std::string& uuid) { return uuid.starts_with(entry); };
    const auto first = std::find_if(uuids.begin(), uuids.end(), matches);
    if (first == uuids.end() || std::find_if(first + 1, uuids.end(), matches) != uuids.end())
      return std::nullopt;
    return static_cast<std::size_t>(first - uuids.begin());
  }
  const auto place = base::ParseNumber<std::size_t>(entry);
  return place && *place < uuids.size() ? place : std::nullopt;
}

std::string DistanceText(int level) {
  if (level < 10) return "one board";
  if (level < 20) return "PCIe switch";
  if (level < 30) return "PCIe switches";
  if (level < 40) return "PCIe host bridge";
  return level < 50 ? "NUMA node" : "sockets";
}

GpuInfo Describe(const NvmlSession& nvml, int index) {
  GpuInfo gpu{.index = index, .name = nvml.Name(index), .uuid = nvml.Uuid(index)};
  if (const auto memory = nvml.Memory(index)) {
    gpu.memory_bytes = memory->total;
    gpu.free_bytes = memory->free;
  }
  gpu.nvlinks = nvml.NvLinks(index);
  if (gpu.name.empty() || gpu.uuid.empty()) {
    gpu.left_out = "the driver does not describe it";
  } else if (nvml.MigIsOn(index)) {
    gpu.left_out = "MIG is on, and is left as it is";
  } else if (gpu.memory_bytes <= 0) {
    gpu.left_out = "the driver does not report its memory";
  }
  return gpu;
}

std::string WhyNone(const GpuList& list, int count, const std::optional<std::string>& variable) {
  if (count == 0) return fmt::format("no GPU: the NVIDIA driver {} sees none", list.driver);
  if (list.left_out.empty())
    return fmt::format("no GPU: CUDA_VISIBLE_DEVICES=\"{}\" shows none of {}", variable.value_or(""), count);
  const GpuInfo& first = list.left_out.front();
  return fmt::format("no GPU: {} is left out: {}", TextOf(first), first.left_out);
}

}  // namespace

std::vector<std::size_t> VisiblePlaces(const std::optional<std::string>& variable,
                                       const std::vector<std::string>& uuids) {
  std::vector<std::size_t> places;
  if (!variable) {
    for (std::size_t place = 0; place < uuids.size(); ++place) places.push_back(place);
    return places;
  }
  for (std::size_t start = 0; start <= variable->size();) {
    const std::size_t comma = std::min(variable->find(',', start), variable->size());
    const auto place = PlaceOf(Trimmed(std::string_view(*variable).substr(start, comma - start)), uuids);
    if (!place || std::find(places.begin(), places.end(), *place) != places.end()) break;
    places.push_back(*place);
    start = comma + 1;
  }
  return places;
}

GpuList ListGpus() {
  GpuList list;
  std::string why;
  const auto nvml = NvmlSession::Open(why);
  if (nvml == nullptr) {
    list.why_none = "no GPU: " + why;
    return list;
  }
  list.driver = nvml->Driver();
  const int count = nvml->Count();
  std::vector<std::string> uuids;
  uuids.reserve(static_cast<std::size_t>(count));
  for (int index = 0; index < count; ++index) uuids.push_back(nvml->Uuid(index));
  const auto variable = VisibleDevices();
  for (const std::size_t place : VisiblePlaces(variable, uuids)) {
    GpuInfo gpu = Describe(*nvml, static_cast<int>(place));
    (gpu.left_out.empty() ? list.gpus : list.left_out).push_back(std::move(gpu));
  }
  for (GpuInfo& gpu : list.gpus) {
    std::optional<int> farthest;
    for (const GpuInfo& other : list.gpus) {
      if (other.index == gpu.index) continue;
      if (const auto distance = nvml->Distance(gpu.index, other.index))
        farthest = std::max(*distance, farthest.value_or(0));
    }
    if (farthest) gpu.farthest = DistanceText(*farthest);
  }
  if (list.gpus.empty()) list.why_none = WhyNone(list, count, variable);
  return list;
}

std::vector<std::string> UuidsOf(const GpuList& list) {
  std::vector<std::string> uuids;
  for (const GpuInfo& gpu : list.gpus) uuids.push_back(gpu.uuid);
  return uuids;
}

std::string TextOf(const GpuInfo& gpu) {
  return fmt::format("GPU {}{}", gpu.index, gpu.name.empty() ? "" : fmt::format(" ({})", gpu.name));
}

std::string NamesOf(const GpuList& list, bool counted) {
  std::vector<std::pair<std::string, int>> names;
  for (const GpuInfo& gpu : list.gpus) {
    const auto known =
        std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == gpu.name; });
    if (known == names.end()) {
      names.emplace_back(gpu.name, 1);
    } else {
      ++known->second;
    }
  }
  std::string text;
  for (const auto& [name, count] : names) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " + ",
                        counted && count > 1 ? fmt::format("{} x ", count) : "", name);
  }
  return fmt::format("{}, driver {}", text, list.driver);
}

std::string GpuUuidText(std::span<const unsigned char, 16> bytes) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  }
  return text;
}

std::int64_t KeptBackBytes(const std::string& uuid, std::int64_t visible_bytes) {
  std::string why;  // without NVML, no capacity was taken from it either
  const auto nvml = NvmlSession::Open(why);
  if (nvml == nullptr) return 0;
  for (int index = 0; index < nvml->Count(); ++index) {
    if (nvml->Uuid(index) != uuid) continue;
    const auto memory = nvml->Memory(index);
    return memory ? std::max<std::int64_t>(memory->total - visible_bytes, 0) : 0;
  }
  return 0;
}

}  // namespace autocfg
