// Selects the devices on which a worker runs ranks, from --devices and the machine's hardware. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "kernels/nvml/gpus.h"

namespace autocfg::worker {

struct DeviceChoice {
  std::vector<int> cores;               // ranks are pinned to them round-robin
  GpuList gpus = {};                    // GPUs of the ranks; empty: ranks run on the CPU
  std::vector<std::string> notes = {};  // why available GPUs are not used
};

// Parses a list such as "0-3,6" and keeps its order. InvalidArgument: malformed, or a number appears twice.
absl::StatusOr<std::vector<int>> ParseIndexes(const std::string& text);

// `asked` is one of:
//
// - auto: the GPUs if usable ones exist and an engine for them is beside `trainer`; else the CPU
// - cpu, cpu:CORES
// - cuda, cuda:INDEXES (the driver's indexes)
//
// InvalidArgument: any other value. FailedPrecondition: a named device does not exist.
absl::StatusOr<DeviceChoice> ChooseDevices(const std::string& asked, const std::string& trainer);

// `slots` = 0: one per GPU, or per core.
v1::Inventory InventoryOf(const DeviceChoice& choice, std::int64_t slots);

}  // namespace autocfg::worker
