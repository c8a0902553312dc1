// When the collectives of a rank's reduction actions ran, by a clock that records transfers. One rank, one
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "search/schedule/action_kinds.h"
#include "trainer/backend/step_clock.h"

namespace autocfg::trainer {

class ReductionSpans {
 public:
  // `clock` must outlive the object.
  explicit ReductionSpans(const StepClock& clock) : clock_(clock) {}

  // Returns when the collectives of an action ran that began at `start_s` and has just ended: from the later
  // of its begin and that of the first one to the end of the last one. Nothing if the clock records none, or
  // none ran in it: those of the tensor group have a lane of their own. Call it once for each action that
  // ends, in their order.
  std::optional<TimeSpan> Take(ActionKind kind, double start_s) {
    std::optional<TimeSpan> span;
    if (LaneOf(kind) != Lane::kReduce || GroupOf(kind) == CommGroup::kTensor) return span;
    while (const std::optional<TimeSpan> transfer = clock_.Transfer(Lane::kReduce, taken_)) {
      ++taken_;
      if (transfer->end_s <= start_s) continue;  // of an earlier action, which did not wait for it
      if (!span) span = {std::max(start_s, transfer->start_s), transfer->end_s};
      span->end_s = transfer->end_s;
    }
    return span;
  }

 private:
  const StepClock& clock_;
  std::size_t taken_ = 0;
};

}  // namespace autocfg::trainer
