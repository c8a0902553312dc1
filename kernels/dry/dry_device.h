// The dry device: counts bytes, records ops, computes nothing. Runs plans of any size in a test.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/op_log.h"
#include "kernels/ops.h"

namespace autocfg {

// Allocations are counted and return null; tokens and weights copied in are dropped.
std::unique_ptr<Device> CreateDryDevice();

// Checks shapes as every implementation does, and records into `sink`, which must outlive the result.
std::unique_ptr<Ops> CreateDryOps(OpSink& sink);

}  // namespace autocfg
