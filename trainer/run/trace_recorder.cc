#include "trainer/run/trace_recorder.h"

#include <algorithm>
#include <array>
#include <limits>

#include "search/schedule/action_kinds.h"

namespace autocfg::trainer {

TraceRecorder::TraceRecorder(std::int64_t rank, const RankProgram& program, const StepClock& clock)
    : rank_(static_cast<std::int32_t>(rank)),
      program_(program),
      clock_(clock),
      reductions_(clock),
      seen_(program.size()) {}

void TraceRecorder::OnStart(std::size_t action) { seen_.at(action).start_s = clock_.Seconds(); }

void TraceRecorder::OnEnd(std::size_t action) {
  TimeSpan& span = seen_.at(action);
  span.end_s = clock_.Seconds();
  span = reductions_.Take(program_[action].kind, span.start_s).value_or(span);
}

std::vector<TraceRow> TraceRecorder::Rows(double shift_s) const {
  const auto lane_of = [&](std::size_t i) { return static_cast<std::size_t>(program_[i].lane); };

  // If a later action of the lane was observed to end, the earlier ones had ended by then.
  std::vector<TimeSpan> spans = seen_;
  std::array<double, kLanes> ended_by_s;
  ended_by_s.fill(std::numeric_limits<double>::infinity());
  for (std::size_t i = spans.size(); i-- > 0;) {
    double& by_s = ended_by_s[lane_of(i)];
    spans[i].end_s = by_s = std::min(by_s, spans[i].end_s);
  }

  std::array<std::size_t, kLanes> issued{};
  std::array<double, kLanes> free_s{};
  std::vector<TraceRow> rows;
  rows.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Lane lane = program_[i].lane;
    TimeSpan& span = spans[i];
    span.start_s = std::max(span.start_s, free_s[lane_of(i)]);
    if (lane != Lane::kReduce) span = clock_.Transfer(lane, issued[lane_of(i)]++).value_or(span);
    free_s[lane_of(i)] = span.end_s;
    rows.push_back({rank_, lane, static_cast<std::int32_t>(i), span.start_s + shift_s, span.end_s + shift_s});
  }
  return rows;
}

}  // namespace autocfg::trainer
