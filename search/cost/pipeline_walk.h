// When the ranks of a pipeline end, computed from the costs of its stages alone: the meaning of
// schedule/program.h for the orders GPipe, 1F1B and interleaved, walked on a few numbers a rank, without
// making the program. Some twenty nanoseconds for each forward and backward that is walked; of a pipeline
// that becomes steady (steady_state.h) few are, however many microbatches there are. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  bool forwards_first = false;  // GPipe; with one stage on each rank
};

// The ends of a pipeline rank's forwards and of its backwards, each in order.
struct ComputeEnds {
  std::vector<double> forwards;
  std::vector<double> backwards;
};

struct PipelineEnds {
  std::vector<double> last_backward_s;  // by rank
  std::int64_t walked = 0;              // forwards and backwards of all ranks that were not skipped
};

// As many stages on each rank; several only with a multiple of `ranks` microbatches. The tests hold it equal
// to the simulator.
PipelineEnds WalkPipeline(const WalkedPipeline& pipeline, std::int64_t microbatches);

// The same with nothing skipped: every compute's end, by rank.
std::vector<ComputeEnds> WalkEveryCompute(const WalkedPipeline& pipeline, std::int64_t microbatches);

}  // namespace autocfg
