#include "search/cost/timing/program_timer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace autocfg {
namespace {

using Clocks = std::vector<double>;

std::vector<double> Durations(const std::vector<LoopedProgram::RankAction>& actions, const TimingOrder& order,
                              const ActionSeconds& seconds) {
  std::vector<double> durations;
  durations.reserve(1 + actions.size() + order.longer.size());
  durations.push_back(0);
  for (const LoopedProgram::RankAction& a : actions) durations.push_back(seconds(a.rank, a.action));
  for (const auto& [a, b] : order.longer) {
    durations.push_back(
        std::max(durations[static_cast<std::size_t>(a)], durations[static_cast<std::size_t>(b)]));
  }
  return durations;
}

// When a step begins.
double Start(const TimingStep& step, const double* values) {
  return std::max(std::max(values[step.after[0]], values[step.after[1]]), values[step.after[2]]);
}

// Once through the segment; `values` are its own and those of its inputs.
void RunSegment(const TimingSegment& segment, const std::vector<double>& durations, const Clocks& inputs,
                std::vector<double>& values, Clocks& outputs) {
  if (values.size() < inputs.size() + segment.steps.size())
    values.resize(inputs.size() + segment.steps.size());
  std::copy(inputs.begin(), inputs.end(), values.begin());
  double* next = values.data() + inputs.size();
  for (const TimingStep& step : segment.steps)
    *next++ = Start(step, values.data()) + durations[static_cast<std::size_t>(step.seconds)];
  outputs.resize(segment.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = values[static_cast<std::size_t>(segment.outputs[i])];
}

// Whether all clocks are later by the same time than they were. One that holds nothing up, wherever it is,
// counts as the one that it could hold up.
bool AreShifted(const TimingSegment& segment, const Clocks& then, const Clocks& now) {
  constexpr double kRounding = 1e-12;
  const auto reference = static_cast<std::size_t>(segment.reference);
  const double shift = now[reference] - then[reference];
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto least = static_cast<std::size_t>(segment.least[i]);
    const double a = std::max(then[i], then[least]), b = std::max(now[i], now[least]);
    if (!(std::abs(b - a - shift) <= kRounding * b)) return false;
  }
  return true;
}

// The clocks after the last few repetitions: a steady state may have a period of some of them.
class History {
 public:
  void Clear() { kept_ = 0; }
  void Push(const Clocks& clocks) { ring_[kept_++ % kMost] = clocks; }
  // The clocks `ago` repetitions before the next ones, from 1; null if they are not kept.
  const Clocks* Ago(std::size_t ago) const {
    return ago <= std::min(kept_, kMost) ? &ring_[(kept_ - ago) % kMost] : nullptr;
  }

 private:
  static constexpr std::size_t kMost = 4;
  std::array<Clocks, kMost> ring_;
  std::size_t kept_ = 0;
};

// Moves the clocks on by as many of `left` repetitions as are known from the history; returns how many.
std::int64_t Skip(const TimingSegment& segment, const History& history, std::int64_t left, Clocks& clocks) {
  const auto reference = static_cast<std::size_t>(segment.reference);
  for (std::size_t ago = 1; history.Ago(ago) != nullptr; ++ago) {
    const Clocks& then = *history.Ago(ago);
    const auto period = static_cast<std::int64_t>(ago);
    if (left < period || !AreShifted(segment, then, clocks)) continue;
    const std::int64_t times = left / period;
    const double shift = static_cast<double>(times) * (clocks[reference] - then[reference]);
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      if (clocks[i] != then[i]) clocks[i] += shift;  // what stays holds nothing up
    }
    return times * period;
  }
  return 0;
}

}  // namespace

ProgramTimer::ProgramTimer(std::vector<LoopedProgram::RankAction> actions, TimingOrder order)
    : actions_(std::move(actions)), order_(std::move(order)) {
  for (const TimingSegment& segment : order_.segments)
    steps_ += static_cast<std::int64_t>(segment.steps.size());
}

absl::StatusOr<ProgramTimer> ProgramTimer::Create(const LoopedProgram& program) {
  auto order = FindTimingOrder(program, /*with_actions=*/false);
  if (!order.ok()) return order.status();
  return ProgramTimer(program.actions, *std::move(order));
}

TimedStep ProgramTimer::Run(const ActionSeconds& seconds, bool skip) const {
  const std::vector<double> durations = Durations(actions_, order_, seconds);
  TimedStep step;
  Clocks clocks = {0}, outputs;
  std::vector<double> values;
  History history;
  for (const TimingSegment& segment : order_.segments) {
    history.Clear();
    for (std::int64_t left = segment.times; left > 0;) {
      RunSegment(segment, durations, clocks, values, outputs);
      step.computes += segment.computes;
      if (--left > 0 && skip) {
        history.Push(clocks);
        left -= Skip(segment, history, left, outputs);
      }
      clocks.swap(outputs);
    }
  }
  step.step_time_s = *std::max_element(clocks.begin(), clocks.end());
  for (const std::int32_t worked : order_.worked)
    step.worked_s.push_back(clocks[static_cast<std::size_t>(worked)]);
  return step;
}

absl::StatusOr<TracedStep> TraceProgram(const Program& program, const ActionSeconds& seconds) {
  const absl::StatusOr<LoopedProgram> looped = LoopsOf(program);
  if (!looped.ok()) return looped.status();
  const absl::StatusOr<TimingOrder> order = FindTimingOrder(*looped, /*with_actions=*/true);
  if (!order.ok()) return order.status();
  std::vector<double> values;
  Clocks ends;
  const TimingSegment& segment = order->segments.front();
  const std::vector<double> durations = Durations(looped->actions, *order, seconds);
  RunSegment(segment, durations, {0}, values, ends);

  TracedStep step;
  step.compute_busy_s.resize(program.ranks.size());
  step.rows.reserve(looped->actions.size());
  for (std::size_t i = 0; i < looped->actions.size(); ++i) {
    const LoopedProgram::RankAction& action = looped->actions[i];
    const auto n = static_cast<std::size_t>(order->step_of_action[i]);
    const double start = Start(segment.steps[n], values.data()), end = values[1 + n];
    step.rows.push_back({action.rank, action.action.lane, action.index, start, end});
    step.step_time_s = std::max(step.step_time_s, end);
    if (action.action.lane == Lane::kCompute)
      step.compute_busy_s[static_cast<std::size_t>(action.rank)] += end - start;
  }
  return step;
}

}  // namespace autocfg
