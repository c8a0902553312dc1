// One GPU as a Device. Allocates with cudaMalloc. Copies from the host pass through pinned memory and do not
// block. One rank, one thread; the GPU becomes the current one of the creating thread.
#pragma once

#include <memory>

#include "kernels/device.h"

namespace autocfg::cuda {

// Returns the number of GPUs that the process sees. Throws DeviceError, with the reason, if there is none.
int DeviceCount();

// Creates the device for the GPU with this ordinal among those that the process sees. Throws DeviceError,
// with the reason, if there is none.
std::unique_ptr<Device> CreateCudaDevice(int ordinal);

}  // namespace autocfg::cuda
