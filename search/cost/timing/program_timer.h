// Times a program: computes when each action begins and ends, by the meaning in schedule/program.h.
// Independent of the schedule. Skips the repetitions of a steady program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
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

// How many more repetitions (fewer, if negative) a loop of a program gets.
struct LoopGrowth {
  std::int32_t rank = 0;
  std::size_t loop = 0;  // index in LoopedProgram::ranks[rank]
  std::int64_t repetitions = 0;
};

// Times one program for any durations. Immutable, thread-safe.
class ProgramTimer {
 public:
  // FailedPrecondition names an action that is stuck.
  static absl::StatusOr<ProgramTimer> Create(const LoopedProgram& program);

  // Returns the timer of the program that differs only by that growth, without a new search for its order;
  // nothing if the order may differ in more than repetitions. Each loop that grows must run at least twice,
  // before and after.
  //
  // Until all ranks are found to repeat the nodes of a segment, what they do depends on their loops, not on
  // how often these repeat, since none has ended. From then on all repeat the segment until the first of them
  // leaves its loop. So a growth that all of them share in proportion to their repetitions in the segment
  // only runs the segment more often, and what follows stays as it is.
  std::optional<ProgramTimer> Grown(std::span<const LoopGrowth> growth) const;

  // Once a loop is steady, all clocks are later by the same time after each repetition. The remaining
  // repetitions only add that time and are skipped. Compares clocks, not ends of actions: a rank that drains
  // changes the last ends of ranks that are still full. The result equals that of TimeAll, except for
  // rounding.
  //
  // Calls `seconds` once for each action of LoopedProgram::actions.
  TimedStep Time(const ActionSeconds& seconds) const { return Run(seconds, true); }

  // As Time, but skips nothing.
  TimedStep TimeAll(const ActionSeconds& seconds) const { return Run(seconds, false); }

  std::int64_t node_count() const;
  // Returns the memory of what it shares with the timers that were grown from it.
  std::size_t SharedBytes() const;

 private:
  // What timers of programs that differ only in repetitions share.
  struct Shared {
    std::vector<LoopedProgram::RankAction> actions;
    TimingOrder order;
  };

  ProgramTimer(std::shared_ptr<const Shared> shared, std::vector<std::int64_t> times)
      : shared_(std::move(shared)), times_(std::move(times)) {}
  TimedStep Run(const ActionSeconds& seconds, bool skip) const;

  std::shared_ptr<const Shared> shared_;
  std::vector<std::int64_t> times_;  // by segment: how often it runs
};

}  // namespace autocfg
