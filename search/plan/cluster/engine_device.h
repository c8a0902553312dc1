// The devices on which the engine runs ranks, and the kinds of hardware that they need. Their names stand in
// messages, JSON, command lines and the database; all other code uses these types. Plain values, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "search/plan/states/precision.h"

namespace autocfg {

// Hardware: of a cluster's node group, of a worker.
enum class DeviceKind : std::uint8_t { kCpu, kCuda };
inline constexpr std::array kDeviceKinds = {DeviceKind::kCpu, DeviceKind::kCuda};
inline constexpr std::array<std::string_view, kDeviceKinds.size()> kDeviceKindNames = {"cpu", "cuda"};

// Convert to and from kDeviceKindNames. Parsing returns no value for any other name.
std::string_view Name(DeviceKind kind);
std::optional<DeviceKind> ParseDeviceKind(std::string_view name);

// What a rank computes on: the device of a job, and --device.
//
// - kCpu, kCuda: the CPU, a GPU
// - kPaced: emulates a described cluster; each op takes its modelled time on a virtual clock
// - kDry: counts memory and records ops; takes no time
//
// A new device also needs an entry in kEngineDevices, without which its name cannot be parsed.
enum class EngineDevice : std::uint8_t { kCpu, kCuda, kPaced, kDry };
inline constexpr std::array kEngineDevices = {EngineDevice::kCpu, EngineDevice::kCuda, EngineDevice::kPaced,
                                              EngineDevice::kDry};

// Convert to and from "cpu", "cuda", "paced" and "dry". Parsing returns no value for any other name.
std::string_view Name(EngineDevice device);
std::optional<EngineDevice> ParseEngineDevice(std::string_view name);

// Returns the names for an error message: "cpu, cuda, paced or dry"; without the dry device, which a search
// cannot use, "cpu, cuda or paced".
std::string EngineDeviceNames(bool dry);

// Returns the hardware that ranks on the device need; no value if any worker can run them.
std::optional<DeviceKind> NeededKind(EngineDevice device);

// Returns OK if ranks that compute on this hardware run in the precision. Otherwise an error that names what
// does: InvalidArgument for fp64 on GPUs, Unimplemented for what is not supported yet.
absl::Status CheckRuns(DeviceKind kind, const Precision& precision);

// Returns true if ranks on the device need GPUs.
bool UsesGpus(EngineDevice device);

// Returns true if ops compute values: a run has losses and weights, and its times are those of the hardware.
bool Computes(EngineDevice device);

// Returns true if the device emulates a described cluster: its times are modelled, not measured.
bool IsEmulated(EngineDevice device);

// Returns true if the device only counts: nothing is computed or timed.
bool IsDry(EngineDevice device);

}  // namespace autocfg
