#include "trainer/run/breakdown_recorder.h"

#include <array>
#include <optional>
#include <utility>

#include "search/schedule/action_kinds.h"

namespace autocfg::trainer {

BreakdownRecorder::BreakdownRecorder(const RankProgram& program, const StepClock& clock, Stream& stream)
    : program_(program), clock_(clock), stream_(stream), times_(program.size()), reductions_(clock) {}

// A virtual clock knows when issued work ends, and to wait for the device would change when sums of squares
// run (kernels/paced/paced_device.h).
void BreakdownRecorder::Synchronize() {
  if (!clock_.IsVirtual()) stream_.Synchronize();
}

void BreakdownRecorder::OnStart(std::size_t action) { times_.at(action).start_s = clock_.Seconds(); }

void BreakdownRecorder::OnEnd(std::size_t action) {
  ActionTime& time = times_.at(action);
  time.end_s = clock_.Seconds();
  const ActionKind kind = program_[action].kind;
  if (IsSend(kind) || IsRecv(kind)) return;
  time.collective_s = std::exchange(collective_s_, 0.0);
  time.states_s = std::exchange(states_s_, 0.0);
  time.recompute_s = std::exchange(recompute_s_, 0.0);
  if (const std::optional<TimeSpan> span = reductions_.Take(kind, time.start_s)) {
    time.start_s = span->start_s;
    time.end_s = span->end_s;
  }
}

void BreakdownRecorder::OnSectionStart(Section section) {
  Synchronize();
  if (section == Section::kRecompute) ++recomputing_;
  open_s_.push_back(clock_.Seconds());
}

void BreakdownRecorder::OnSectionEnd(Section section) {
  Synchronize();
  const double seconds = clock_.Seconds() - open_s_.back();
  open_s_.pop_back();
  if (section == Section::kRecompute) --recomputing_;
  if (recomputing_ > 0) return;  // part of the outer recomputation
  switch (section) {
    case Section::kCollective: collective_s_ += seconds; return;
    case Section::kStates: states_s_ += seconds; return;
    case Section::kRecompute: recompute_s_ += seconds; return;
  }
}

std::vector<ActionTime> BreakdownRecorder::Times() const {
  std::vector<ActionTime> times = times_;
  std::array<std::size_t, kLanes> issued{};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Lane lane = program_[i].lane;
    if (lane != Lane::kPipelineSend && lane != Lane::kPipelineRecv) continue;
    if (const auto transfer = clock_.Transfer(lane, issued[Index(lane)]++)) {
      times[i].start_s = transfer->start_s;
      times[i].end_s = transfer->end_s;
    }
  }
  return times;
}

}  // namespace autocfg::trainer
