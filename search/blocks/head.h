// The final norm, the output layer and the loss, which the last stage has after its layers: their ops, and
// their bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "search/blocks/tensor_bytes.h"
#include "search/ops/op_desc.h"
#include "search/plan/run_view.h"

namespace autocfg {

std::vector<OpDesc> HeadForwardOps(const RunView& run);
std::vector<OpDesc> HeadBackwardOps(const RunView& run, bool accumulate);

// Returns the bytes that the last stage keeps of a microbatch: what the final norm reads and writes, logits,
// sums of the cross-entropy over the tensor group, targets.
std::int64_t HeadBytes(const ParallelPlan& plan, const TensorBytes& bytes);

}  // namespace autocfg
