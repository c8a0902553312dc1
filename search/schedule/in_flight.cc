#include <algorithm>

#include "search/plan/model_stages.h"
#include "search/schedule/generators.h"

namespace autocfg {

// Right after the n-th forward of the rank (n >= 1), as many microbatches are in flight as the chunk has
// forwards among the first n, less its backwards among the first max(0, n - ahead - 1): after `ahead`
// forwards a backward follows each. Beyond those, the count repeats every round. It rises only within a block
// of the chunk's forwards and falls only within one of its backwards. So it is greatest where such a block of
// the first round ends or begins, or at the ends. If the slot of a forward is taken before the backward in
// front of it, that one is not among them: as if the rank ran one more forward ahead.
std::int64_t InterleavedInFlight(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage,
                                 std::int64_t early) {
  const std::int64_t ranks = plan.pp, chunks = plan.virtual_stages, chunk = ChunkOf(plan, stage);
  const std::int64_t round = ranks * chunks, mirrored = chunks - 1 - chunk;
  const std::int64_t total = microbatches * chunks;
  const std::int64_t ahead =
      early + InterleavedWarmUp(PipelineRankOf(plan, stage), ranks, chunks, microbatches);
  const std::int64_t steady = ahead + 1;
  // of the first round's forwards; the next one is at or after `steady`
  const std::int64_t block_end = (chunk + 1) * ranks;
  const std::int64_t rounds = std::max<std::int64_t>(0, (steady - block_end + round - 1) / round);
  const std::int64_t backwards_begin = steady + mirrored * ranks;
  std::int64_t most = 0;
  for (const std::int64_t candidate : {ahead, steady, block_end + rounds * round, backwards_begin, total}) {
    const std::int64_t n = std::min(candidate, total);
    const std::int64_t backwards = std::max<std::int64_t>(0, n - ahead - 1);
    most = std::max(most, InterleavedComputes(n, ranks, chunks, chunk) -
                              InterleavedComputes(backwards, ranks, chunks, mirrored));
  }
  return most;
}

std::int64_t InFlightTogether(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage) {
  if (plan.schedule != Schedule::kInterleaved) return InFlight(plan, microbatches, stage);
  const std::int64_t forwards =
      InterleavedWarmUp(PipelineRankOf(plan, stage), plan.pp, plan.virtual_stages, microbatches) + 1;
  return InterleavedComputes(std::min(forwards, microbatches * plan.virtual_stages), plan.pp,
                             plan.virtual_stages, ChunkOf(plan, stage));
}

}  // namespace autocfg
