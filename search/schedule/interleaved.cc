#include "search/schedule/interleaved.h"

namespace autocfg {

ComputeOrder InterleavedOrder(int rank, int ranks, int chunks, int microbatches) {
  const int total = chunks * microbatches;
  const int ahead = static_cast<int>(InterleavedWarmUp(rank, ranks, chunks, microbatches));
  ComputeOrder order;
  order.reserve(2 * static_cast<std::size_t>(total));
  // The k-th forward or backward of the rank. A round takes one group of `ranks` microbatches through every
  // chunk.
  const auto add = [&](ActionKind kind, int k) {
    const int round = ranks * chunks;
    const int nth_chunk = k % round / ranks;
    const int chunk = kind == ActionKind::kForward ? nth_chunk : chunks - 1 - nth_chunk;
    order.push_back({.kind = kind,
                     .lane = Lane::kCompute,
                     .stage = chunk * ranks + rank,
                     .microbatch = k / round * ranks + k % ranks});
  };
  for (int k = 0; k < ahead; ++k) add(ActionKind::kForward, k);
  for (int k = ahead; k < total; ++k) {
    add(ActionKind::kForward, k);
    add(ActionKind::kBackward, k - ahead);
  }
  for (int k = total - ahead; k < total; ++k) add(ActionKind::kBackward, k);
  return order;
}

}  // namespace autocfg
