// The devices that messages, and the database's copies of their fields, name. Thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "autocfg/v1/worker_service.pb.h"
#include "search/plan/cluster/engine_device.h"

namespace autocfg {

// Returns the device on which a job's ranks run. No value for a name that this version does not know: the
// trainer rejects such a job.
std::optional<EngineDevice> EngineDeviceOf(const v1::Job& job);

// Returns the hardware that a job needs. No value if any worker can run it, and for an unknown device.
// `device` is a job's device.
std::optional<DeviceKind> NeededKind(std::string_view device);
std::optional<DeviceKind> NeededKind(const v1::Job& job);

// Returns the hardware of a worker; an empty name is a CPU. No value for an unknown name: such a worker
// cannot register. `device_kind` is an inventory's.
std::optional<DeviceKind> WorkerKind(std::string_view device_kind);
std::optional<DeviceKind> WorkerKind(const v1::Inventory& inventory);

// Most bytes of an encoded inventory. That of a machine with 16 GPUs has a tenth.
inline constexpr std::size_t kMostInventoryBytes = std::size_t{64} << 10;
// InvalidArgument if the inventory is larger: such a worker cannot register.
absl::Status CheckInventorySize(const v1::Inventory& inventory);

}  // namespace autocfg
