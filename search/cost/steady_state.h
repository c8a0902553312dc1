// The time of a pipeline of many microbatches from simulations of fewer. Pure but for what it is given, thread-safe.
#pragma once

#include <cstdint>
#include <functional>

namespace autocfg {

struct StepSeconds {
  double step_s = 0;
  double pipeline_end_s = 0;  // the last backward's
};

// Once a pipeline is full, each further group of `period` microbatches adds the same. `simulate(m)` gives the times for m microbatches;
// `least_s` is what a microbatch adds at least in the end (closed_form.h). Simulates two runs that are one period apart, and extends
// them to `microbatches` where they show that rate; else, since a slower rank may take over later, longer and longer ones, and in the
// end the whole. Requires positive counts.
StepSeconds ExtendSteadyState(std::int64_t microbatches, std::int64_t period, double least_s,
                              const std::function<StepSeconds(std::int64_t)>& simulate);

}  // namespace autocfg
