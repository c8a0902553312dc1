// What every world needs to create the communicator of a group: the checks of groups and types, which throw
// CommError, and parts that do nothing. The functions are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "search/ops/op_desc.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg::trainer {

// Point-to-point channels are 0 .. kUserChannels - 1.
inline constexpr int kUserChannels = 60;

// Returns this rank's position in `ranks`. Requires that `ranks` is ascending, within [0, world_size), and
// contains `world_rank`.
int GroupPosition(const std::vector<std::int64_t>& ranks, int world_rank, int world_size);

// Returns part `index` of `parts` equal parts of `whole`, as a flat tensor. Requires that its elements
// divide.
Tensor PartOf(const Tensor& whole, std::int64_t index, std::int64_t parts);

// Checks that the types of a call that reduces support it: kF32, kF64, kBF16 or kI32.
void CheckReducible(const CollectiveCall& call);

// Returns work that is already complete.
std::unique_ptr<Work> CompleteWork();

// Creates a communicator that moves no data and completes every operation at once. The null world uses it,
// and every other world uses it for groups of one rank. Its barriers synchronize the `copies` of the rank,
// which must outlive the result; they return at once if it is null. `name` appears in the names of these
// barriers.
std::unique_ptr<Communicator> CreateNullCommunicator(int rank, int size, CommGroup name = CommGroup::kNone,
                                                     Rendezvous* copies = nullptr);

// The stream of a communicator over host memory whose tensors are written by the host itself. It has nothing
// to synchronize.
class HostStream final : public Stream {
 public:
  void Synchronize() override {}
};

}  // namespace autocfg::trainer
