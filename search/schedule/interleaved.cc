#include "search/schedule/generators.h"

namespace autocfg {

ComputeLoops InterleavedOrder(std::int32_t rank, std::int32_t ranks, std::int32_t chunks,
                              std::int64_t microbatches) {
  const std::int64_t total = chunks * microbatches;
  const std::int64_t ahead = InterleavedWarmUp(rank, ranks, chunks, microbatches);
  // The rank's forwards and backwards of a group of microbatches.
  std::vector<StageCompute> forwards, backwards;
  for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
    forwards.insert(forwards.end(), static_cast<std::size_t>(ranks),
                    {ActionKind::kForward, chunk * ranks + rank});
    backwards.insert(backwards.end(), static_cast<std::size_t>(ranks),
                     {ActionKind::kBackward, (chunks - 1 - chunk) * ranks + rank});
  }
  const auto round = static_cast<std::int64_t>(forwards.size());
  ComputeLoops loops(3);
  loops[0] = {forwards, ahead};
  loops[1].count = 2 * (total - ahead);
  loops[1].computes.reserve(2 * forwards.size());
  for (std::int64_t k = 0; k < round; ++k) {
    loops[1].computes.push_back(forwards[static_cast<std::size_t>((ahead + k) % round)]);
    loops[1].computes.push_back(backwards[static_cast<std::size_t>(k)]);
  }
  loops[2].count = ahead;
  for (std::int64_t k = total - ahead; k < total - ahead + round; ++k)
    loops[2].computes.push_back(backwards[static_cast<std::size_t>(k % round)]);
  return loops;
}

}  // namespace autocfg
