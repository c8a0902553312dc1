// The timer of programs: when every action of a program begins and ends, with the meaning that
// schedule/program.h gives it. Knows no schedule. Skips what a steady program repeats.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/timing/timing_order.h"
#include "search/schedule/action.h"
#include "search/schedule/looped_program.h"
#include "search/schedule/program.h"

namespace autocfg {

// Seconds that an action takes once it can run, on a rank. A message or collective takes as long as its
// slowest member says.
using ActionSeconds = std::function<double(std::int32_t rank, const Action& action)>;

// A step of a program, every action of it.
struct TracedStep {
  double step_time_s = 0;
  std::vector<double> compute_busy_s;  // by rank
  std::vector<TraceRow> rows;          // by rank, then in order of issue
};

// FailedPrecondition when the program is stuck, naming the action. Pure, thread-safe.
absl::StatusOr<TracedStep> TraceProgram(const Program& program, const ActionSeconds& seconds);

struct TimedStep {
  double step_time_s = 0;
  std::vector<double> worked_s;  // by rank: the end of its last forward or backward
  std::int64_t computes = 0;     // forwards and backwards that were timed; the others were skipped
};

// Times one program with any durations. Immutable, thread-safe.
class ProgramTimer {
 public:
  // FailedPrecondition when the program is stuck, naming the action.
  static absl::StatusOr<ProgramTimer> Create(const LoopedProgram& program);

  // When a loop has become steady, all clocks are later by the same time after each repetition. Then the
  // repetitions that are left only add that time, and are skipped. The clocks are compared, not when actions
  // ended: a rank that drains changes the last ends of ranks that are still full. The result is that of
  // TimeAll but for rounding.
  //
  // `seconds` is asked once for each action that LoopedProgram::actions has.
  TimedStep Time(const ActionSeconds& seconds) const { return Run(seconds, true); }

  // Skips nothing.
  TimedStep TimeAll(const ActionSeconds& seconds) const { return Run(seconds, false); }

  std::int64_t steps() const { return steps_; }  // that it keeps

 private:
  ProgramTimer(std::vector<LoopedProgram::RankAction> actions, TimingOrder order);
  TimedStep Run(const ActionSeconds& seconds, bool skip) const;

  std::vector<LoopedProgram::RankAction> actions_;
  TimingOrder order_;
  std::int64_t steps_ = 0;
};

}  // namespace autocfg
