// The CPU device: host memory, BLAS and plain loops, one thread.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/ops.h"

namespace autocfg {

// BLAS is set to one thread, process-wide, by the first call: a rank is one core.
std::unique_ptr<Device> CreateCpuDevice();

// Runs kF32 and kF64; throws std::invalid_argument for other types.
std::unique_ptr<Ops> CreateCpuOps();

}  // namespace autocfg
