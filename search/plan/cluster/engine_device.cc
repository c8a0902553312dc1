#include "search/plan/cluster/engine_device.h"

#include "fmt/format.h"

namespace autocfg {
namespace {

struct DeviceTraits {
  std::string_view name;
  std::optional<DeviceKind> needs;
  bool computes;
  bool emulated;
};

DeviceTraits TraitsOf(EngineDevice device) {
  switch (device) {
    case EngineDevice::kCpu:
      return {.name = "cpu", .needs = DeviceKind::kCpu, .computes = true, .emulated = false};
    case EngineDevice::kCuda:
      return {.name = "cuda", .needs = DeviceKind::kCuda, .computes = true, .emulated = false};
    case EngineDevice::kPaced:
      return {.name = "paced", .needs = std::nullopt, .computes = false, .emulated = true};
    case EngineDevice::kDry:
      return {.name = "dry", .needs = std::nullopt, .computes = false, .emulated = false};
  }
  return {};
}

}  // namespace

std::string_view Name(DeviceKind kind) { return kDeviceKindNames[static_cast<std::size_t>(kind)]; }

std::optional<DeviceKind> ParseDeviceKind(std::string_view name) {
  for (const DeviceKind kind : kDeviceKinds) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string_view Name(EngineDevice device) { return TraitsOf(device).name; }

std::optional<EngineDevice> ParseEngineDevice(std::string_view name) {
  for (const EngineDevice device : kEngineDevices) {
    if (Name(device) == name) return device;
  }
  return std::nullopt;
}

std::string EngineDeviceNames(bool dry) {
  std::string names;
  std::string_view last;
  for (const EngineDevice device : kEngineDevices) {
    if (IsDry(device) && !dry) continue;
    if (!last.empty()) names += fmt::format("{}{}", names.empty() ? "" : ", ", last);
    last = Name(device);
  }
  return fmt::format("{} or {}", names, last);
}

std::optional<DeviceKind> NeededKind(EngineDevice device) { return TraitsOf(device).needs; }

bool UsesGpus(EngineDevice device) { return NeededKind(device) == DeviceKind::kCuda; }

bool Computes(EngineDevice device) { return TraitsOf(device).computes; }

bool IsEmulated(EngineDevice device) { return TraitsOf(device).emulated; }

bool IsDry(EngineDevice device) { return device == EngineDevice::kDry; }

}  // namespace autocfg
