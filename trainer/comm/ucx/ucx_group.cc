#include "trainer/comm/ucx/ucx_group.h"

#include <utility>

#include "fmt/format.h"

namespace autocfg::trainer {
namespace {

// A tag holds, from the highest bits down: group id, channel, source rank (of the world), sequence number.
// The sequence may wrap around: the number of in-flight messages of a channel is always far smaller.
constexpr int kSequenceBits = 28;
constexpr int kSourceBits = 18;
constexpr int kChannelBits = 6;
constexpr int kGroupBits = 12;
static_assert(kSequenceBits + kSourceBits + kChannelBits + kGroupBits == 64);
static_assert(kChannels <= 1 << kChannelBits);

}  // namespace

UcxGroup::UcxGroup(UcxTransport& transport, std::vector<std::int64_t> ranks, int position,
                   std::vector<std::uint32_t> group_ids)
    : transport_(transport),
      ranks_(std::move(ranks)),
      position_(position),
      group_ids_(std::move(group_ids)),
      sent_(ranks_.size() * kChannels),
      received_(ranks_.size() * kChannels) {
  if (transport.size() > 1 << kSourceBits) {
    throw CommError(fmt::format("{} ranks are more than the {} that a message's tag has room for",
                                transport.size(), 1 << kSourceBits));
  }
  for (std::uint32_t id : group_ids_) {
    if (id >= 1u << kGroupBits) {
      throw CommError(fmt::format("two ranks share more than the {} groups that a message's tag has room for",
                                  1u << kGroupBits));
    }
  }
}

std::uint64_t UcxGroup::Tag(int peer, int channel, int source, std::uint32_t sequence) const {
  std::uint64_t tag = group_ids_[peer];
  tag = tag << kChannelBits | static_cast<std::uint64_t>(channel);
  tag = tag << kSourceBits | static_cast<std::uint64_t>(ranks_[source]);
  return tag << kSequenceBits | (sequence & ((1u << kSequenceBits) - 1));
}

UcxRequest UcxGroup::Send(int peer, int channel, const void* data, std::size_t bytes) {
  const std::uint32_t sequence = sent_[peer * kChannels + channel]++;
  return transport_.Send(static_cast<int>(ranks_[peer]), Tag(peer, channel, position_, sequence), data,
                         bytes);
}

UcxRequest UcxGroup::Recv(int peer, int channel, void* data, std::size_t bytes) {
  const std::uint32_t sequence = received_[peer * kChannels + channel]++;
  return transport_.Recv(static_cast<int>(ranks_[peer]), Tag(peer, channel, peer, sequence), data, bytes);
}

}  // namespace autocfg::trainer
