// Ops that wait for the device after each op, so that an error of the device names the op that caused it. A
// device reports the error of a kernel at a later call. For finding a fault: the host no longer runs ahead,
// so steps take longer.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace autocfg {

// Returns ops that issue those of `ops`, each awaited on its stream. A DeviceError begins with the number of
// the op, counted from 1 on this rank, and its description (ToString(OpDesc)); a DeviceOutOfMemory passes
// unchanged.
std::unique_ptr<Ops> CreateAwaitedOps(std::unique_ptr<Ops> ops);

}  // namespace autocfg
