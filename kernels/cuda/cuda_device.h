// One GPU as a Device. Memory by cudaMalloc; copies from the host pass through pinned memory, so that they
// wait for nothing. One rank, one thread; the thread that makes it has the GPU as its current one.
#pragma once

#include <memory>

#include "kernels/device.h"

namespace autocfg::cuda {

// GPUs that the process sees. Throws DeviceError, saying why, where there is none.
int DeviceCount();

// The GPU of this ordinal among those that the process sees. Throws DeviceError, saying why, where there is
// none.
std::unique_ptr<Device> CreateCudaDevice(int ordinal);

}  // namespace autocfg::cuda
