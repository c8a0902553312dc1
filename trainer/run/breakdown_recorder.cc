#include "trainer/run/breakdown_recorder.h"

#include <algorithm>
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
  const TimeSpan span = {open_s_.back(), clock_.Seconds()};
  const double seconds = span.end_s - span.start_s;
  open_s_.pop_back();
  if (section != Section::kRecompute) waits_.push_back(span);
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
  AddHidden(clock_.Collectives(), times);
  return times;
}

void BreakdownRecorder::AddHidden(const std::vector<TimeSpan>& collectives,
                                  std::vector<ActionTime>& times) const {
  struct Compute {
    TimeSpan span;
    std::size_t action;
  };
  std::vector<Compute> computes;  // without the waits, in order of time
  auto wait = waits_.begin();
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (program_[i].lane != Lane::kCompute) continue;
    double now_s = times[i].start_s;
    while (wait != waits_.end() && wait->end_s <= now_s) ++wait;
    for (; wait != waits_.end() && wait->start_s < times[i].end_s; ++wait) {
      computes.push_back({{now_s, wait->start_s}, i});
      now_s = wait->end_s;
    }
    computes.push_back({{now_s, times[i].end_s}, i});
  }
  for (const TimeSpan& collective : collectives) {
    auto it = std::lower_bound(computes.begin(), computes.end(), collective.start_s,
                               [](const Compute& compute, double s) { return compute.span.end_s < s; });
    for (; it != computes.end() && it->span.start_s < collective.end_s; ++it) {
      times[it->action].hidden_s += std::max(
          0.0, std::min(collective.end_s, it->span.end_s) - std::max(collective.start_s, it->span.start_s));
    }
  }
}

}  // namespace autocfg::trainer
