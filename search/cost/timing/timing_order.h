// An order in which the actions of a program can be timed. It is the same for all durations: the program
// fixes the order of every lane, so no time decides what runs next. An action begins when the latest of a few
// others ends.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/schedule/looped_program.h"

namespace autocfg {

// One value: the latest of three values before it, and a duration. Values are numbered through a segment: its
// inputs, then its steps.
struct TimingStep {
  std::array<std::int32_t, 3> after{};
  std::int32_t seconds = 0;  // index, as TimingOrder says
};

// Steps that run `times` times; the outputs of one run are the inputs of the next. Inputs and outputs are
// clocks. All later times follow from the outputs and the durations.
struct TimingSegment {
  std::int32_t inputs = 0;
  std::vector<TimingStep> steps;
  std::vector<std::int32_t> outputs;  // values
  // By output: an output that delays everything that this one can delay; itself if there is none. While this
  // one is the earlier of the two, it delays nothing.
  std::vector<std::int32_t> least;
  std::int32_t reference = 0;  // an output that is later each time
  std::int64_t computes = 0;   // forwards and backwards among the steps
  std::int64_t times = 1;
};

struct TimingOrder {
  std::vector<TimingSegment> segments;  // the first one's input is the time 0
  // Index of a duration: 0 is no time, then come the program's actions, then these: each the longer of two
  // durations before it.
  std::vector<std::pair<std::int32_t, std::int32_t>> longer;
  // By rank: the output of the last segment that is the end of its last forward or backward.
  std::vector<std::int32_t> worked;
  std::vector<std::int32_t> step_of_action;  // of the first segment; only if asked for
};

// FailedPrecondition names an action that is stuck, after the meaning of schedule/program.h. What all ranks
// repeat together becomes a segment of several times, whichever schedule it comes from. `with_actions`: fills
// step_of_action; requires a program without loops (LoopsOf).
absl::StatusOr<TimingOrder> FindTimingOrder(const LoopedProgram& program, bool with_actions);

}  // namespace autocfg
