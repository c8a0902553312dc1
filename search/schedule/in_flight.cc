#include <algorithm>
#include <stdexcept>

#include "search/plan/model_stages.h"
#include "search/schedule/generators.h"

namespace autocfg {
namespace {

// Counts of one chunk of a rank of the interleaved schedule.
struct Chunk {
  std::int64_t ranks, chunks, chunk;

  std::int64_t Round() const { return ranks * chunks; }

  // How many of the rank's first n forwards, or n backwards where `nth` is counted from the last chunk, are
  // of the chunk.
  std::int64_t Of(std::int64_t n, std::int64_t nth) const {
    return n / Round() * ranks + std::clamp<std::int64_t>(n % Round() - nth * ranks, 0, ranks);
  }
  std::int64_t Forwards(std::int64_t n) const { return Of(n, chunk); }
  std::int64_t Backwards(std::int64_t n) const { return Of(n, chunks - 1 - chunk); }
};

// In flight right after the n-th forward of the rank (n >= 1) are Forwards(n) - Backwards(max(0, n - ahead -
// 1)): after `ahead` forwards a backward follows each. Beyond those this repeats every round, rises only
// within a block of the chunk's forwards and falls only within one of its backwards. So it is greatest where
// such a block of the first round ends or begins, or at the ends.
std::int64_t Interleaved(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage) {
  const Chunk c{plan.pp, plan.virtual_stages, ChunkOf(plan, stage)};
  const std::int64_t total = microbatches * plan.virtual_stages;
  const std::int64_t ahead =
      InterleavedWarmUp(PipelineRankOf(plan, stage), plan.pp, plan.virtual_stages, microbatches);
  const auto after = [&](std::int64_t n) {
    n = std::min(n, total);
    return c.Forwards(n) - c.Backwards(std::max<std::int64_t>(0, n - ahead - 1));
  };
  const std::int64_t steady = ahead + 1;
  // of the first round's forwards; the next one is at or after `steady`
  const std::int64_t block_end = (c.chunk + 1) * c.ranks;
  const std::int64_t rounds = std::max<std::int64_t>(0, (steady - block_end + c.Round() - 1) / c.Round());
  const std::int64_t backwards_begin = steady + (c.chunks - 1 - c.chunk) * c.ranks;
  return std::max({after(ahead), after(steady), after(block_end + rounds * c.Round()), after(backwards_begin),
                   after(total)});
}

}  // namespace

std::int64_t InFlight(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage) {
  switch (plan.schedule) {
    case Schedule::kGPipe: return microbatches;
    case Schedule::kOneFOneB: return std::min(microbatches, plan.pp - stage);
    case Schedule::kInterleaved: return Interleaved(plan, microbatches, stage);
    case Schedule::kZeroBubbleH1: break;
  }
  throw std::logic_error("a schedule without a generator: CheckPredictable was not asked");
}

}  // namespace autocfg
