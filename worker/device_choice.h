// What a worker runs ranks on, as --devices asks and as the machine has it. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "kernels/nvml/gpus.h"

namespace autocfg {

struct DeviceChoice {
  std::vector<int> cores;               // that ranks are pinned to, in turns
  GpuList gpus = {};                    // that they run on; empty: on the CPU
  std::vector<std::string> notes = {};  // why GPUs that are there are not used
};

// A list such as "0-3,6", in its order. InvalidArgument: it is none, or has a number twice.
absl::StatusOr<std::vector<int>> ParseIndexes(const std::string& text);

// `asked`: auto (the GPUs where there are usable ones and an engine for them beside `trainer`, else the CPU),
// cpu, cpu:CORES, cuda, cuda:INDEXES (the driver's). InvalidArgument: it is none of these;
// FailedPrecondition: what it names is not here.
absl::StatusOr<DeviceChoice> ChooseDevices(const std::string& asked, const std::string& trainer);

// `slots` = 0: one per GPU, or core.
v1::Inventory InventoryOf(const DeviceChoice& choice, std::int64_t slots);

}  // namespace autocfg
