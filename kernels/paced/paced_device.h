// The paced device: computes nothing, as the dry one, and takes the time of each op on a virtual clock. Its
// ops are CreateDryOps (kernels/dry/dry_device.h) with the clock as their sink. One rank, one thread.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/paced/paced_clock.h"

namespace autocfg {

// Memory as the dry device. Synchronising a stream moves the clock's host to the end of what was issued; all
// streams of the device are its clock's one stream. `clock` must outlive the result.
std::unique_ptr<Device> CreatePacedDevice(PacedClock& clock);

}  // namespace autocfg
