// Makes the trace rows of one step of a rank. It is told of each action by the runner; one step's recording
// costs two readings of the clock an action. One rank, one thread.
//
// Rows of a lane do not overlap. Compute: from when all that the action waits for is complete to its end.
// Communication, whose actions complete in order within a lane: from when the action was issued and those
// before it in the lane had ended, to its end as the rank noticed it; on a clock that knows when a transfer
// ran, just then.
#pragma once

#include <cstdint>
#include <vector>

#include "search/schedule/program.h"
#include "search/schedule/trace.h"
#include "trainer/run/action_observer.h"
#include "trainer/run/step_clock.h"

namespace autocfg {

class TraceRecorder final : public ActionObserver {
 public:
  // For one step of `program` by `rank`, between a restart of the clock and the next. All must outlive the
  // recorder.
  TraceRecorder(std::int64_t rank, const RankProgram& program, const StepClock& clock);

  void OnStart(std::size_t action) override;
  void OnEnd(std::size_t action) override;

  // In order of issue; `shift_s` is added to every time. Requires that the step is over and the clock not
  // restarted.
  std::vector<TraceRow> Rows(double shift_s) const;

 private:
  const std::int32_t rank_;
  const RankProgram& program_;
  const StepClock& clock_;
  std::vector<TimeSpan> seen_;  // by action
};

}  // namespace autocfg
