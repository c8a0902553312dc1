// Chooses the device that runs ranks, from --device, the machine and this build. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/nvml/gpus.h"
#include "search/plan/cluster/engine_device.h"

namespace autocfg::cli {

struct RunDevice {
  EngineDevice engine = EngineDevice::kCpu;
  GpuList machine = {};                 // kCuda: the GPUs that ranks run on; empty for other devices
  std::vector<std::string> notes = {};  // why visible GPUs are not used
};

// Chooses a device. `asked` is a result of LoadDevice. No value, auto, becomes kCuda if a GPU is visible, the
// build has the GPU engine and `precision` (--precision, or empty) is not fp64, which GPUs do not run here;
// otherwise kCpu. FailedPrecondition if kCuda is asked for without a GPU ("no GPU: ...") or without the
// engine.
absl::StatusOr<RunDevice> ChooseDevice(std::optional<EngineDevice> asked, std::string_view precision);

// Returns "4 ranks share 1 GPU: ..."; empty if each rank has its own GPU.
std::string SharedGpusNote(std::int64_t ranks, const GpuList& list);

// Returns true if a described device matches `gpu`: it has its name, or it is a preset whose model (the part
// before the first '-', such as h200) is a word of the GPU's name.
bool IsLike(std::string_view described, const GpuInfo& gpu);

}  // namespace autocfg::cli
