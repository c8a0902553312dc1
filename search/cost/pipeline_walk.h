// When the ranks of a pipeline end, computed from the costs of its stages alone: the meaning of
// schedule/program.h for the orders 1F1B and interleaved, walked on a few numbers a rank, without making the
// program. For pipelines whose stages are too unlike for the closed form; some ten nanoseconds for each
// forward and backward. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/cost/steady_state.h"

namespace autocfg {

// Forward and backward of a stage, without messages.
struct StageSeconds {
  double forward = 0;
  double backward = 0;
};

struct WalkedPipeline {
  std::span<const StageSeconds> stages;  // of the model, in order; rank r has the stages r, r + ranks, ...
  std::span<const double> begin_s;       // by rank of the pipeline: when its first action can begin
  double message_s = 0;
};

// The ends of all forwards and backwards; step_s is pipeline_end_s, that of the last backward. As many stages
// on each rank; several only with a multiple of `ranks` microbatches. The tests hold it equal to the
// simulator.
PipelineRun WalkPipeline(const WalkedPipeline& pipeline, std::int64_t microbatches);

}  // namespace autocfg
