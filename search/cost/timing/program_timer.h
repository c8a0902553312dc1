// Times a program: computes when each action begins and ends, by the meaning in schedule/program.h.
// Independent of the schedule. Skips the repetitions of a steady program.
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

// Returns the seconds that an action of a rank takes once it can run. A message or collective takes the
// longest of its members' times.
using ActionSeconds = std::function<double(std::int32_t rank, const Action& action)>;

// A step of a program with the times of all actions.
struct TracedStep {
  double step_time_s = 0;
  std::vector<double> compute_busy_s;  // by rank
  std::vector<TraceRow> rows;          // by rank, then in order of issue
};

// Times all actions. FailedPrecondition names an action that is stuck. Pure, thread-safe.
absl::StatusOr<TracedStep> TraceProgram(const Program& program, const ActionSeconds& seconds);

struct TimedStep {
  double step_time_s = 0;
  std::vector<double> worked_s;  // by rank: the end of its last forward or backward
  std::int64_t computes = 0;     // forwards and backwards that were timed, not skipped
};

// Times one program for any durations. Immutable, thread-safe.
class ProgramTimer {
 public:
  // FailedPrecondition names an action that is stuck.
  static absl::StatusOr<ProgramTimer> Create(const LoopedProgram& program);

  // Once a loop is steady, all clocks are later by the same time after each repetition. The remaining
  // repetitions only add that time and are skipped. Compares clocks, not ends of actions: a rank that drains
  // changes the last ends of ranks that are still full. The result equals that of TimeAll, except for
  // rounding.
  //
  // Calls `seconds` once for each action of LoopedProgram::actions.
  TimedStep Time(const ActionSeconds& seconds) const { return Run(seconds, true); }

  // As Time, but skips nothing.
  TimedStep TimeAll(const ActionSeconds& seconds) const { return Run(seconds, false); }

  std::int64_t node_count() const { return node_count_; }

 private:
  ProgramTimer(std::vector<LoopedProgram::RankAction> actions, TimingOrder order);
  TimedStep Run(const ActionSeconds& seconds, bool skip) const;

  std::vector<LoopedProgram::RankAction> actions_;
  TimingOrder order_;
  std::int64_t node_count_ = 0;
};

}  // namespace autocfg
