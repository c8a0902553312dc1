// The bytes that a rank reserves, in closed form: equal to the byte to what the trainer's arena takes
// (docs/engine.md is the common specification, also of what is predicted only; a test compares them over
// random plans). Pure functions, thread-safe, about a microsecond where stages have equal numbers of layers.
#pragma once

#include <cstdint>

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

struct MemoryBytes {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;
  std::int64_t workspace = 0;
  std::int64_t communication = 0;
  std::int64_t device_overhead = 0;  // measured, not planned

  std::int64_t Arena() const {
    return parameters + gradients + optimizer + activations + workspace + communication;
  }
  std::int64_t Total() const { return Arena() + device_overhead; }

  bool operator==(const MemoryBytes&) const = default;
};

// The regions of a rank at a pipeline coordinate, all its stages (the same for all its tensor and data
// coordinates), without device overhead. Requires a legal plan that CheckPredictable takes, with a resolved
// split.
MemoryBytes RankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                       std::int64_t pipeline_rank);

// That of the rank with the largest arena, the first of these in the pipeline.
MemoryBytes WorstRankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

}  // namespace autocfg
