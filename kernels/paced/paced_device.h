// The paced device: computes nothing, like the dry device, and takes op times from a virtual clock. Its ops
// are CreateDryOps (kernels/dry/dry_device.h) with the clock as their sink. One rank, one thread.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/paced/paced_clock.h"

namespace autocfg {

// Memory behaves as on the dry device. Synchronizing a stream advances the host time to the end of all issued
// work. All streams of the device are the clock's one stream. `clock` must outlive the result.
std::unique_ptr<Device> CreatePacedDevice(PacedClock& clock);

}  // namespace autocfg
