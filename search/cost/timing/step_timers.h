// The time of a step from the costs of its pipeline, by the timer of programs (program_timer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/timing/program_timer.h"
#include "search/schedule/action.h"
#include "search/schedule/compute_order.h"
#include "search/schedule/looped_program.h"

namespace autocfg {

// Returns the seconds that an action of a pipeline rank takes. `ranks_per_core`: how many ranks share a core,
// 1 or more; the others of its core idle. Pure, thread-safe.
double SecondsOf(const PipelineCosts& costs, double ranks_per_core, std::int64_t pipeline_rank,
                 const Action& action);

// Returns the step of a pipeline with these costs. `timer`: of LowerLoops. Pure, thread-safe.
TimedStep TimeStep(const ProgramTimer& timer, const PipelineCosts& costs, double ranks_per_core);

// Caches the timers of programs: the plans of one search have few different programs. Not thread-safe; copies
// share what was cached.
class StepTimers {
 public:
  // Returns the timer of the shape's program (LowerLoops); valid until the next call. Throws std::logic_error
  // if the program gets stuck, which would be a bug of the lowering.
  const ProgramTimer& Find(const PipelineShape& shape);

 private:
  // Limit for the memory of all timers made, and of their models.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  // Hashes the fields that differ most often; equality compares all of them.
  struct ShapeHash {
    std::size_t operator()(const PipelineShape& shape) const;
  };
  // A program from which those of shapes with other numbers of microbatches are made.
  struct Model {
    PipelineShape shape;
    std::vector<ComputeLoops> computes;                  // by rank
    std::vector<LoopedProgram::Repetition> repetitions;  // by rank, then in order
    std::vector<std::int64_t> times;                     // of those
    std::shared_ptr<const ProgramTimer> timer;

    std::size_t Bytes() const;  // without the timer
  };
  // Returns the timer of `shape` by the model of its kind; null if there is none that serves.
  std::shared_ptr<const ProgramTimer> MakeByModel(const PipelineShape& shape) const;
  // Returns a new timer. Keeps it as a model unless the present one has more microbatches.
  std::shared_ptr<const ProgramTimer> Make(const PipelineShape& shape);

  absl::flat_hash_map<PipelineShape, std::shared_ptr<const ProgramTimer>, ShapeHash> timers_;
  absl::flat_hash_map<PipelineShape, Model, ShapeHash> models_;  // by shape, with 0 microbatches
  std::size_t bytes_ = 0;
};

}  // namespace autocfg
