#include "proto/convert/device_convert.h"

#include "fmt/format.h"

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

absl::Status CheckInventorySize(const v1::Inventory& inventory) {
  const std::size_t bytes = inventory.ByteSizeLong();
  if (bytes <= kMostInventoryBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "inventory has {} bytes and {} GPUs; the limit is {} bytes; offer fewer devices by one worker", bytes,
      inventory.gpus_size(), kMostInventoryBytes));
}

}  // namespace autocfg
