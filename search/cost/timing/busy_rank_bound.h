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
  bool has_first = false;
};

// What the times of a pipeline's stages depend on beside their costs.
struct StageTerms {
  double ranks_per_core = 1;
  bool overlaps_messages = false;
  bool single = false;  // one microbatch
};

// Adds `chunks` chunks with these costs to each of the ranks, in the order of the chunks. `input_s`,
// `gradient_s`: the message before each forward and each backward.
void AddChunks(const StageTerms& terms, const StageCosts& costs, std::int64_t chunks, double input_s,
               double gradient_s, AlikeRanks& ranks);

// Returns a lower bound of PipelineBound's seconds, and of the time from the first forward of the first rank
// to its last backward or weight gradients. `ranks`: all of the pipeline, in order.
double BusyRankBound(std::span<const AlikeRanks> ranks, Schedule schedule, std::int64_t microbatches);

}  // namespace autocfg
