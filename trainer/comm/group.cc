#include "trainer/comm/group.h"

#include <algorithm>

#include "fmt/format.h"

namespace autocfg::trainer {

int GroupPosition(const std::vector<std::int64_t>& ranks, int world_rank, int world_size) {
  int position = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= world_size) {
      throw CommError(
          fmt::format("rank {} of a group is outside the {} ranks of the job", ranks[i], world_size));
    }
    if (i > 0 && ranks[i] <= ranks[i - 1]) {
      throw CommError(
          fmt::format("the ranks of a group must ascend; rank {} follows {}", ranks[i], ranks[i - 1]));
    }
    if (ranks[i] == world_rank) position = static_cast<int>(i);
  }
  if (position < 0)
    throw CommError(fmt::format("rank {} is not a member of the group that it creates", world_rank));
  return position;
}

void CheckPeer(const Communicator& group, int peer, int channel) {
  if (peer < 0 || peer >= group.size() || peer == group.rank()) {
    throw CommError(fmt::format("rank {} of a group of {} cannot exchange messages with rank {}",
                                group.rank(), group.size(), peer));
  }
  if (channel < 0 || channel >= kUserChannels) {
    throw CommError(fmt::format("channel {} is outside 0 to {}", channel, kUserChannels - 1));
  }
}

void CheckReducible(const Tensor& tensor) {
  if (tensor.dtype == DType::kF32 || tensor.dtype == DType::kF64 || tensor.dtype == DType::kI32 ||
      tensor.dtype == DType::kBF16) {
    return;
  }
  throw CommError(fmt::format("cannot reduce elements of type {}; fp32, fp64, bf16 and int32 are supported",
                              Name(tensor.dtype)));
}

}  // namespace autocfg::trainer
