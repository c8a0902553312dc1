// Checks of groups, peers and tensors that all communicators share. They throw CommError. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/comm/communicator.h"

namespace autocfg::trainer {

// Point-to-point channels are 0 .. kUserChannels - 1.
inline constexpr int kUserChannels = 60;

// Returns this rank's position in `ranks`. Requires that `ranks` is ascending, within [0, world_size), and
// contains `world_rank`.
int GroupPosition(const std::vector<std::int64_t>& ranks, int world_rank, int world_size);

// Checks that `peer` is another rank of the group and that `channel` is valid.
void CheckPeer(const Communicator& group, int peer, int channel);

// Checks that the tensor's type supports reduction: kF32, kF64, kBF16 or kI32.
void CheckReducible(const Tensor& tensor);

}  // namespace autocfg::trainer
