// The CPU device: host memory, BLAS and plain loops, one thread.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/ops.h"

namespace autocfg {

// The first call sets BLAS to one thread for the whole process, because a rank uses one core.
std::unique_ptr<Device> CreateCpuDevice();

// The ops support kF32 and kF64 and throw std::invalid_argument for other types.
std::unique_ptr<Ops> CreateCpuOps();

}  // namespace autocfg
