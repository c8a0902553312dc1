// Records when the actions of one step of a rank ran, and what was communication and recomputation inside of
// them. The device is synchronized at the end of every action and around every section, so the step is slower
// than others where the host runs ahead of the device. One rank, one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/device.h"
#include "search/breakdown/step_breakdown.h"
#include "search/schedule/program.h"
#include "trainer/backend/step_clock.h"
#include "trainer/run/reduction_spans.h"
#include "trainer/run/runner.h"

namespace autocfg::trainer {

class BreakdownRecorder final : public ActionObserver {
 public:
  // Records one step of `program`, from one restart of the clock to the next. `stream`: on which the rank
  // runs. All arguments must outlive the recorder.
  BreakdownRecorder(const RankProgram& program, const StepClock& clock, Stream& stream);

  void OnStart(std::size_t action) override;
  void OnEnd(std::size_t action) override;
  void OnSectionStart(Section section) override;
  void OnSectionEnd(Section section) override;

  // Returns the times by action. If the clock records when transfers ran (a virtual clock), messages and
  // collectives have exactly those times, and ActionTime::hidden_s is theirs. Otherwise they start when this
  // rank issued them, and a send ends when this rank noticed it; MeetPeers (peer_times.h) corrects both.
  // Requires that the step is over.
  std::vector<ActionTime> Times() const;

  // Adds to ActionTime::hidden_s of `times`, which are of Times(), how long the collectives ran while the
  // action computed.
  void AddHidden(const std::vector<TimeSpan>& collectives, std::vector<ActionTime>& times) const;

 private:
  void Synchronize();

  const RankProgram& program_;
  const StepClock& clock_;
  Stream& stream_;
  std::vector<ActionTime> times_;  // by action
  ReductionSpans reductions_;
  std::vector<double> open_s_;                                // starts of the sections that are open
  std::vector<TimeSpan> waits_;                               // sections of collectives
  double collective_s_ = 0, states_s_ = 0, recompute_s_ = 0;  // of the action that runs
  std::size_t recomputing_ = 0;                               // open sections of recomputation
};

}  // namespace autocfg::trainer
