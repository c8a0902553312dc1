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

absl::Status CheckRuns(DeviceKind kind, const Precision& precision) {
  const bool on_gpu = kind == DeviceKind::kCuda;
  const std::string_view base = BaseName(precision);
  if (on_gpu && base == "fp64")
    return absl::InvalidArgumentError("fp64 is for CPUs only; on a GPU give bf16 or fp32");
  if (on_gpu && base != "bf16" && base != "fp32")
    return absl::UnimplementedError(fmt::format("{} on a GPU is not supported yet; give bf16 or fp32", base));
  if (!on_gpu && base != "fp32" && base != "fp64")
    return absl::UnimplementedError(
        fmt::format("{} on the CPU is not supported yet; give fp32 or fp64", base));
  if (on_gpu && base == "fp32" && precision.gradients != DType::kF32) {
    return absl::UnimplementedError(
        fmt::format("grads={} in fp32 on a GPU is not supported yet; give fp32", Name(precision.gradients)));
  }
  return CheckEngineRuns(precision);
}

bool UsesGpus(EngineDevice device) { return NeededKind(device) == DeviceKind::kCuda; }

bool Computes(EngineDevice device) { return TraitsOf(device).computes; }

bool IsEmulated(EngineDevice device) { return TraitsOf(device).emulated; }

bool IsDry(EngineDevice device) { return device == EngineDevice::kDry; }

}  // namespace autocfg
