// CUDA's status codes as this project's errors. Thread-safe.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string_view>

namespace autocfg::cuda {

// Throws where `status` is not success: DeviceOutOfMemory for memory that does not suffice, DeviceError with
// the code's own words for all else, after `what` was tried ("cudaMalloc of 3 GiB").
void Check(cudaError_t status, std::string_view what);

// The same for memory of the host, of which there being too little is a DeviceError: no other plan would
// help.
void CheckHost(cudaError_t status, std::string_view what);

// Of the device's memory; -1 where CUDA does not tell, as after a fault.
std::int64_t FreeBytes();

// Whether so little of it is free that a library's failure for which it gives no reason is put down to that:
// its handles and kernels come after the arena, when they are first used, and it may say no more of one that
// has no room than that it "failed".
bool IsShortOfMemory();

}  // namespace autocfg::cuda
