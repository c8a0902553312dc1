// All-reduce algorithms over the messages of a group, as tasks that advance whenever the transport is polled.
// Internal to the UCX world; use from one thread. The tasks of one group run one after another, since they
// share its staging buffer.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/tensor.h"
#include "trainer/comm/ucx_group.h"

namespace autocfg {

class CollectiveTask {
 public:
  virtual ~CollectiveTask() = default;

  // Does what can be done now; true if anything moved. Throws CommError.
  virtual bool Step() = 0;
  virtual bool done() const = 0;
};

// Recursive doubling: log2(size) exchanges of the whole tensor; for small ones. Ranks beyond a power of two
// hand theirs to a neighbour first and get the result from it. Requires staging of at least the tensor's
// size.
std::unique_ptr<CollectiveTask> CreateDoublingAllReduce(UcxGroup& group, const Tensor& tensor, ReduceOp op,
                                                        const Tensor& staging);

// A ring: size - 1 steps that reduce one segment each, size - 1 that pass the results round, in pieces of a
// part of the staging buffer that follow each other closely. Each rank sends and receives 2 (size - 1) / size
// of the tensor (Patarasuk and Yuan 2009). Requires staging of a few elements.
std::unique_ptr<CollectiveTask> CreateRingAllReduce(UcxGroup& group, const Tensor& tensor, ReduceOp op,
                                                    const Tensor& staging);

}  // namespace autocfg
