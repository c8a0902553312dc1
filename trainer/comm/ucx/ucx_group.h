// The messages within one group of ranks: maps group ranks to world ranks and assigns a tag to each message.
// Internal to the UCX world; use from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/comm/group.h"
#include "trainer/comm/ucx/ucx_transport.h"

namespace autocfg::trainer {

// Internal channels, numbered after the user's channels.
inline constexpr int kCollectiveChannel = kUserChannels;
inline constexpr int kBarrierChannel = kUserChannels + 1;
inline constexpr int kChannels = kUserChannels + 2;

class UcxGroup {
 public:
  // `group_ids`: for each rank of the group, the number of earlier groups shared with this rank. Both sides
  // compute the same number.
  UcxGroup(UcxTransport& transport, std::vector<std::int64_t> ranks, int position,
           std::vector<std::uint32_t> group_ids);

  UcxTransport& transport() const { return transport_; }
  int rank() const { return position_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // `peer` is a rank of the group. Messages match in order of issue per peer and channel.
  UcxRequest Send(int peer, int channel, const void* data, std::size_t bytes);
  UcxRequest Recv(int peer, int channel, void* data, std::size_t bytes);

 private:
  std::uint64_t Tag(int peer, int channel, int source, std::uint32_t sequence) const;

  UcxTransport& transport_;
  const std::vector<std::int64_t> ranks_;
  const int position_;
  const std::vector<std::uint32_t> group_ids_;
  std::vector<std::uint32_t> sent_;  // messages so far, by peer and channel
  std::vector<std::uint32_t> received_;
};

}  // namespace autocfg::trainer
