// What runs ranks, as --device asks and as the machine and this build have it. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/nvml/gpus.h"

namespace autocfg {

struct RunDevice {
  std::string name;                     // cpu, cuda, dry or paced
  GpuList machine = {};                 // cuda: the GPUs that ranks run on; empty on any other device
  std::vector<std::string> notes = {};  // why GPUs that are there are not used
};

// `asked`: of LoadDevice. "auto" is cuda where a GPU is visible, the build has its engine and `precision`
// (--precision, or empty) is not fp64, which GPUs do not run here; else cpu. Asked for cuda without a GPU
// ("no GPU: ...") or without the engine: FailedPrecondition.
absl::StatusOr<RunDevice> ChooseDevice(const std::string& asked, std::string_view precision);

// "4 ranks share 1 GPU: ..."; empty where each has its own.
std::string SharedGpusNote(std::int64_t ranks, const GpuList& list);

// Whether a described device is such a GPU: it has its name, or is a preset whose model (the part before the
// first '-', such as h200) is a word of the GPU's name.
bool IsLike(std::string_view described, const GpuInfo& gpu);

}  // namespace autocfg
