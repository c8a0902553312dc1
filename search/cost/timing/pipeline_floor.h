// A cheap lower bound of the time of a pipeline: for each rank the path that stays on it between fill and
// drain, which is one of those of the closed form (closed_form.h). Ranks that are alike are given once. Plain
// values; pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/timing/stage_times.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// `count` consecutive ranks of a pipeline whose stages are alike, chunk by chunk.
struct AlikeRanks {
  std::int64_t count = 1;
  StageTime first;           // of the first chunk, as PipelineStages::At: with the messages that it waits for
  StageTime busy;            // of all chunks, as PipelineStages::OfRank
  double first_input_s = 0;  // the message before the first chunk's forward, if it overlaps computes
  double first_saves_s = 0;  // of all chunks
  double weights_save_s = 0;
};

// Returns the ranks' kind from their stages' costs. `chunk` is called for each chunk of the rank, in order,
// and returns the costs of its stage.
template <typename CostsOfChunk>
AlikeRanks AlikeRanksOf(std::int64_t count, std::int64_t rank, std::int64_t chunks, std::int64_t ranks,
                        double p2p_s, bool overlaps, bool single, double ranks_per_core,
                        const CostsOfChunk& chunk);

// Returns a lower bound of PipelineBound's seconds, and of the time from the first forward of the first rank
// to its last backward or weight gradients. `ranks`: all of the pipeline, in order.
double PipelineFloor(std::span<const AlikeRanks> ranks, Schedule schedule, std::int64_t microbatches);

template <typename CostsOfChunk>
AlikeRanks AlikeRanksOf(std::int64_t count, std::int64_t rank, std::int64_t chunks, std::int64_t ranks,
                        double p2p_s, bool overlaps, bool single, double ranks_per_core,
                        const CostsOfChunk& chunk) {
  AlikeRanks alike;
  alike.count = count;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const StageCosts& c = chunk(i);
    const double input_s = rank == 0 && i == 0 ? 0 : p2p_s;
    const double gradient_s = rank + 1 == ranks && i + 1 == chunks ? 0 : p2p_s;
    const double saves_s = UnloadedSaving(c, ranks_per_core);
    const double weights_save_s = UnloadedWeightSaving(c, ranks_per_core);
    const StageTime computes{UnloadedForward(c, ranks_per_core),
                             UnloadedBackward(c, ranks_per_core) - (single ? saves_s : 0),
                             UnloadedWeights(c, ranks_per_core) - (single ? weights_save_s : 0)};
    const StageTime at{computes.forward + input_s, computes.backward + gradient_s, computes.weights};
    if (i == 0) {
      alike.first = at;
      alike.first_input_s = overlaps ? input_s : 0;
    }
    const StageTime& busy = overlaps ? computes : at;
    alike.busy.forward += busy.forward;
    alike.busy.backward += busy.backward;
    alike.busy.weights += busy.weights;
    if (single) continue;
    alike.first_saves_s += saves_s;
    alike.weights_save_s += weights_save_s;
  }
  return alike;
}

}  // namespace autocfg
