// CUDA's status codes as this project's errors. Thread-safe.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

namespace autocfg::cuda {

// Throws where `status` is not success: DeviceOutOfMemory for memory that does not suffice, DeviceError with
// the code's own words for all else, after `what` was tried ("cudaMalloc of 3 GiB").
void Check(cudaError_t status, std::string_view what);

// The same for memory of the host, of which there being too little is a DeviceError: no other plan would
// help.
void CheckHost(cudaError_t status, std::string_view what);

}  // namespace autocfg::cuda
