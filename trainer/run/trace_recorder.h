// Builds the trace rows of one step of a rank. The runner reports each action to it. Recording a step costs
// two clock readings per action. One rank, one thread.
//
// Rows of a lane do not overlap. A compute row spans from the completion of the action's dependencies to its
// end. A communication row spans from the later of its issue and the end of the previous row in its lane, to
// the end observed by the rank; actions complete in order within a lane. If the clock records when a transfer
// ran, the row has exactly those times.
#pragma once

#include <cstdint>
#include <vector>

#include "search/schedule/action.h"
#include "search/schedule/program.h"
#include "trainer/backend/step_clock.h"
#include "trainer/run/reduction_spans.h"
#include "trainer/run/runner.h"

namespace autocfg::trainer {

class TraceRecorder final : public ActionObserver {
 public:
  // Records one step of `program` by `rank`, from one restart of the clock to the next. All arguments must
  // outlive the recorder.
  TraceRecorder(std::int64_t rank, const RankProgram& program, const StepClock& clock);

  void OnStart(std::size_t action) override;
  void OnEnd(std::size_t action) override;

  // Returns the rows in order of issue, with `shift_s` added to every time. Requires that the step is over
  // and that the clock has not been restarted.
  std::vector<TraceRow> Rows(double shift_s) const;

 private:
  const std::int32_t rank_;
  const RankProgram& program_;
  const StepClock& clock_;
  ReductionSpans reductions_;
  std::vector<TimeSpan> seen_;  // by action
};

}  // namespace autocfg::trainer
