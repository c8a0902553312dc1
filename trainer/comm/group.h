// What every kind of communicator checks of a group and of a peer. Throws CommError. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/comm/communicator.h"

namespace autocfg {

// Point-to-point channels are 0 .. kUserChannels - 1.
inline constexpr int kUserChannels = 60;

// This rank's position in `ranks`, which must be ascending, within [0, world_size) and contain `world_rank`.
int GroupPosition(const std::vector<std::int64_t>& ranks, int world_rank, int world_size);

// `peer` must be another rank of the group, and `channel` a channel.
void CheckPeer(const Communicator& group, int peer, int channel);

// kF32, kF64, kBF16 and kI32 are reduced.
void CheckReducible(const Tensor& tensor);

}  // namespace autocfg
