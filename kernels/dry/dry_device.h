// The dry device: counts bytes, records ops and computes nothing. It can run plans of any size in a test.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/op_log.h"
#include "kernels/ops.h"

namespace autocfg {

// Allocations are counted and return null. Tokens and weights that are copied in are discarded.
std::unique_ptr<Device> CreateDryDevice();

// Checks shapes as every implementation does and records ops into `sink`, which must outlive the result.
std::unique_ptr<Ops> CreateDryOps(OpSink& sink);

}  // namespace autocfg
