// Maps CUDA's status codes to this project's errors. Thread-safe.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string_view>

namespace autocfg::cuda {

// Throws if `status` is not success: DeviceOutOfMemory if memory does not suffice, else DeviceError with
// CUDA's text. `what` is the attempted operation ("cudaMalloc of 3 GiB").
void Check(cudaError_t status, std::string_view what);

// As Check, for host memory. Out of host memory is a DeviceError, because no other plan would help.
void CheckHost(cudaError_t status, std::string_view what);

// Returns the free device memory; -1 if CUDA does not report it, for example after a fault.
std::int64_t FreeBytes();

// Returns whether so little device memory is free that an unexplained library failure is attributed to it.
// Libraries create handles and load kernels after the arena, at first use, and may report only "failed" if
// there is no room.
bool IsShortOfMemory();

}  // namespace autocfg::cuda
