// Times a program: walks the actions of every rank on a clock of its own, with the meaning that
// schedule/program.h gives them. Emits the same trace rows as the trainer. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "search/schedule/program.h"
#include "search/schedule/trace.h"

namespace autocfg {

struct SimulatedStep {
  double step_time_s = 0;
  std::vector<double> compute_busy_s;  // by rank
  std::vector<TraceRow> rows;          // by rank, then in order of issue
};

// Seconds that an action takes once it can run, on a rank.
using ActionSeconds = std::function<double(std::int32_t rank, const Action& action)>;

// FailedPrecondition when the program is stuck, naming the action.
absl::StatusOr<SimulatedStep> SimulateProgram(const Program& program, const ActionSeconds& seconds);

}  // namespace autocfg
