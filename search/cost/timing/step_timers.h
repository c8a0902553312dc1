// The time of a step from the costs of its pipeline, by the timer of programs (program_timer.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/timing/program_timer.h"
#include "search/plan/parallel_plan.h"
#include "search/schedule/action.h"

namespace autocfg {

// Seconds that an action of a pipeline rank takes. `ranks_per_core`: how many ranks share a core, 1 or more;
// the others of its core idle. Pure, thread-safe.
double SecondsOf(const PipelineCosts& costs, double ranks_per_core, std::int64_t pipeline_rank,
                 const Action& action);

// The step of a pipeline with these costs. `timer`: of LowerLoops. Pure, thread-safe.
TimedStep TimeStep(const ProgramTimer& timer, const PipelineCosts& costs, double ranks_per_core);

// Keeps the timers of the programs met before: plans of one search have few different ones. Not thread-safe;
// copies share what was kept.
class StepTimers {
 public:
  // The timer of the plan's program (LowerLoops); valid until the next call. A program of our own that gets
  // stuck is a bug: throws std::logic_error.
  const ProgramTimer& Find(const ParallelPlan& plan, std::int64_t microbatches, bool tied_embeddings);

 private:
  // Steps of all timers that are kept, of 16 bytes each.
  static constexpr std::int64_t kMostSteps = std::int64_t{1} << 20;

  // schedule, pp, virtual stages, microbatches, whether gradients are reduced, tied embeddings
  absl::flat_hash_map<std::array<std::int64_t, 6>, std::shared_ptr<const ProgramTimer>> timers_;
  std::int64_t steps_ = 0;
};

}  // namespace autocfg
