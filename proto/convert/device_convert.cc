#include "proto/convert/device_convert.h"

namespace autocfg {

std::optional<EngineDevice> EngineDeviceOf(const v1::Job& job) { return ParseEngineDevice(job.device()); }

std::optional<DeviceKind> NeededKind(std::string_view device) {
  const std::optional<EngineDevice> known = ParseEngineDevice(device);
  return known ? NeededKind(*known) : std::nullopt;
}

std::optional<DeviceKind> NeededKind(const v1::Job& job) { return NeededKind(job.device()); }

std::optional<DeviceKind> WorkerKind(std::string_view device_kind) {
  return device_kind.empty() ? DeviceKind::kCpu : ParseDeviceKind(device_kind);
}

std::optional<DeviceKind> WorkerKind(const v1::Inventory& inventory) {
  return WorkerKind(inventory.device_kind());
}

}  // namespace autocfg
