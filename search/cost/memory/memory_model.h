// Computes the bytes that a rank reserves, in closed form. The result equals the trainer's arena to the byte
// (a test compares them over random plans). docs/engine.md is the common specification, including options
// that can only be predicted. Pure functions, thread-safe; about a microsecond if all stages have the same
// number of layers.
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

// Returns the regions of a rank at a pipeline coordinate, over all its stages, without device overhead. They
// are the same for all its tensor and data coordinates. Requires a legal plan that CheckPredictable accepts,
// with a resolved split.
MemoryBytes RankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                       std::int64_t pipeline_rank);

// Returns the regions of the first pipeline rank with the largest arena.
MemoryBytes WorstRankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

}  // namespace autocfg
