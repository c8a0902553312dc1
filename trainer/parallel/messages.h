// Messages between stages. With scatter_gather each rank of the tensor group sends its part of a message,
// since all have the same, and the receivers gather the parts (Narayanan et al. 2021, section 4.1). One rank,
// one thread.
#pragma once

#include "kernels/tensor.h"
#include "trainer/layout/rank_shape.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Returns what this rank sends or receives of the message in `buffer`[R, H], a buffer of shape.message
// elements: its part, or all of it if messages are not scattered.
Tensor OwnPartOfMessage(const RankShape& shape, const Tensor& buffer);

// Gathers the parts of a message whose own part has arrived. Does nothing if messages are not scattered.
void GatherMessage(const Execution& run, const RankShape& shape, const Tensor& buffer);

}  // namespace autocfg::trainer
