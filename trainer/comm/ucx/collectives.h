// Collectives over the messages of a group, as tasks that advance each time the transport is
// polled. Internal to the UCX world; use from one thread. The tasks of a group run one after another because
// they share its staging buffer.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/tensor.h"
#include "trainer/comm/ucx/ucx_group.h"

namespace autocfg::trainer {

class CollectiveTask {
 public:
  virtual ~CollectiveTask() = default;

  // Does what can be done without blocking. Returns true if it made progress. Throws CommError.
  virtual bool Step() = 0;
  virtual bool done() const = 0;
};

// Creates an all-reduce by recursive doubling: log2(size) exchanges of the whole tensor. Suits small tensors.
// Ranks beyond the largest power of two first send their tensor to a neighbour and receive the result from
// it. Requires a staging buffer of at least the tensor's size.
std::unique_ptr<CollectiveTask> CreateDoublingAllReduce(UcxGroup& group, const Tensor& tensor, ReduceOp op,
                                                        const Tensor& staging);

// Creates a collective around a ring: in size - 1 steps each rank reduces one segment (reduce-scatter), in as
// many steps it passes the segments on (all-gather); an all-reduce is both (Patarasuk and Yuan 2009). A rank
// sends and receives (size - 1) / size of the tensor in each. Segments move in pieces of a part of the
// staging buffer, several of which are in flight. Requires staging for a few elements.
std::unique_ptr<CollectiveTask> CreateRing(UcxGroup& group, const CollectiveCall& call,
                                           const Tensor& staging);

}  // namespace autocfg::trainer
