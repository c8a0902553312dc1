// Faults of the device that a test asks for, as a broken kernel would cause them. One thread of the operating
// system.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/support/cuda_emulator/host_api.h"

namespace autocfg::cuda_emulator {

enum class Fault {
  kNone,
  kIllegalAddress,  // the kernel ends with an error, and so does every call from then on: it is sticky
  kHang,            // the kernel never ends, so no later work of the device begins
  kWrongResult,     // the kernel writes nothing
};

// The launch with this number, counted from 1 and from this call, has the fault. Heals what earlier faults
// did. Initially AUTOCFG_EMULATED_FAULT says, if it is set: "illegal_address@N", "hang@N" or "wrong@N".
void SetFault(Fault fault, std::int64_t launch = 1);

// Counts a launch. Returns the work of a kernel with the fault that it has.
std::function<void()> WithFault(std::function<void()> kernel);

// Returns the error of the kernel that faulted; cudaSuccess if none did.
cudaError_t StickyError();

// Returns true once a kernel hangs.
bool Hangs();

}  // namespace autocfg::cuda_emulator
