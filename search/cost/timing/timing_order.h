// An order in which the actions of a program can be timed. It is the same for all durations: the program
// fixes the order of each lane, so no duration decides what runs next. An action begins when the last of a
// few earlier events is over.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/schedule/looped_program.h"

namespace autocfg {

// One value, a point in time: the maximum of three earlier values, plus a duration. The values of a segment
// are numbered: first its inputs, then its nodes.
struct TimingNode {
  std::array<std::int32_t, 3> after{};
  std::int32_t seconds = 0;  // index of a duration (TimingOrder)
};

// Nodes that run `times` times; the outputs of one run are the inputs of the next. All later values follow
// from the outputs and the durations.
struct TimingSegment {
  std::int32_t inputs = 0;  // their number
  std::vector<TimingNode> nodes;
  std::vector<std::int32_t> outputs;  // values
  // By output: another output that delays everything that this one can delay, or itself if there is none.
  // While this output is the earlier of the two, it delays nothing.
  std::vector<std::int32_t> covered_by;
  std::int32_t reference = 0;  // an output that is later after each run
  std::int64_t computes = 0;   // forwards and backwards among the nodes
  std::int64_t times = 1;

  // If all ranks were found to repeat the nodes: how many repetitions of which of its loops a rank runs in
  // them.
  struct Share {
    std::int32_t rank = 0;
    std::size_t loop = 0;
    std::int64_t repetitions = 0;
  };
  std::vector<Share> shares;
};

struct TimingOrder {
  std::vector<TimingSegment> segments;  // the input of the first one is the time 0
  // Durations are numbered: 0 is no time, then come the program's actions, then these. Each is the longer of
  // two durations with lower numbers.
  std::vector<std::pair<std::int32_t, std::int32_t>> longer;
  // By rank: the output of the last segment that is the end of the rank's last forward or backward.
  std::vector<std::int32_t> worked;
  std::vector<std::int32_t> node_of_action;  // in the first segment; only if asked for
};

// Finds the order. Nodes that all ranks repeat together become a segment of several times, for any schedule.
// FailedPrecondition names an action that is stuck, by the meaning of schedule/program.h. `with_actions`:
// fills node_of_action; requires a program without loops (LoopsOf).
absl::StatusOr<TimingOrder> FindTimingOrder(const LoopedProgram& program, bool with_actions);

}  // namespace autocfg
