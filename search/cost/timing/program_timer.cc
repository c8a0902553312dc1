#include "search/cost/timing/program_timer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"

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

// Returns when a node begins.
double Start(const TimingNode& node, const double* values) {
  return std::max(std::max(values[node.after[0]], values[node.after[1]]), values[node.after[2]]);
}

// Runs the segment once. Sets `values` (those of its inputs and nodes) and `outputs`.
void RunSegment(const TimingSegment& segment, const std::vector<double>& durations, const Clocks& inputs,
                std::vector<double>& values, Clocks& outputs) {
  if (values.size() < inputs.size() + segment.nodes.size())
    values.resize(inputs.size() + segment.nodes.size());
  std::copy(inputs.begin(), inputs.end(), values.begin());
  double* next = values.data() + inputs.size();
  for (const TimingNode& node : segment.nodes)
    *next++ = Start(node, values.data()) + durations[static_cast<std::size_t>(node.seconds)];
  outputs.resize(segment.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = values[static_cast<std::size_t>(segment.outputs[i])];
}

// Returns true if all clocks are later by the same time than they were. A clock that delays nothing counts as
// the one that covers it.
bool AreShifted(const TimingSegment& segment, const Clocks& then, const Clocks& now) {
  constexpr double kRounding = 1e-12;
  const auto reference = static_cast<std::size_t>(segment.reference);
  const double shift = now[reference] - then[reference];
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto cover = static_cast<std::size_t>(segment.covered_by[i]);
    const double a = std::max(then[i], then[cover]), b = std::max(now[i], now[cover]);
    if (!(std::abs(b - a - shift) <= kRounding * b)) return false;
  }
  return true;
}

// The clocks before the last few repetitions. A steady state has a period of a few repetitions if ranks
// alternate.
class History {
 public:
  void Clear() { kept_ = 0; }
  void Push(const Clocks& clocks) { ring_[kept_++ % kMost] = clocks; }
  // Returns the clocks `ago` repetitions before the next ones, from 1; null if they are not kept.
  const Clocks* Ago(std::size_t ago) const {
    return ago <= std::min(kept_, kMost) ? &ring_[(kept_ - ago) % kMost] : nullptr;
  }

 private:
  static constexpr std::size_t kMost = 4;  // longer periods are timed in full: right, and slower
  std::array<Clocks, kMost> ring_;
  std::size_t kept_ = 0;
};

// Moves the clocks by as many of `left` repetitions as the history allows; returns their number.
std::int64_t Skip(const TimingSegment& segment, const History& history, std::int64_t left, Clocks& clocks) {
  const auto reference = static_cast<std::size_t>(segment.reference);
  for (std::size_t ago = 1; history.Ago(ago) != nullptr; ++ago) {
    const Clocks& then = *history.Ago(ago);
    const auto period = static_cast<std::int64_t>(ago);
    if (left < period || !AreShifted(segment, then, clocks)) continue;
    const std::int64_t times = left / period;
    const double shift = static_cast<double>(times) * (clocks[reference] - then[reference]);
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      if (clocks[i] != then[i]) clocks[i] += shift;  // a clock that stays delays nothing
    }
    return times * period;
  }
  return 0;
}

}  // namespace

absl::StatusOr<ProgramTimer> ProgramTimer::Create(const LoopedProgram& program) {
  AUTOCFG_ASSIGN_OR_RETURN(auto order, FindTimingOrder(program, /*with_actions=*/false));
  std::vector<std::int64_t> times;
  for (const TimingSegment& segment : order.segments) times.push_back(segment.times);
  return ProgramTimer(std::make_shared<const Shared>(Shared{program.actions, std::move(order)}),
                      std::move(times));
}

std::int64_t ProgramTimer::node_count() const {
  std::int64_t count = 0;
  for (const TimingSegment& segment : shared_->order.segments)
    count += static_cast<std::int64_t>(segment.nodes.size());
  return count;
}

std::size_t ProgramTimer::SharedBytes() const {
  std::size_t bytes = shared_->actions.capacity() * sizeof(LoopedProgram::RankAction) +
                      shared_->order.longer.capacity() * sizeof(shared_->order.longer[0]);
  for (const TimingSegment& segment : shared_->order.segments) {
    bytes += segment.nodes.capacity() * sizeof(TimingNode) +
             (segment.outputs.capacity() + segment.covered_by.capacity()) * sizeof(std::int32_t) +
             segment.shares.capacity() * sizeof(TimingSegment::Share);
  }
  return bytes;
}

std::optional<ProgramTimer> ProgramTimer::Grown(std::span<const LoopGrowth> growth) const {
  absl::flat_hash_map<std::pair<std::int32_t, std::size_t>, std::int64_t> left;
  for (const LoopGrowth& g : growth) left[{g.rank, g.loop}] += g.repetitions;
  std::vector<std::int64_t> times = times_;
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::optional<std::int64_t> more;  // runs of the segment
    for (const TimingSegment::Share& share : shared_->order.segments[i].shares) {
      const auto found = left.find({share.rank, share.loop});
      const std::int64_t repetitions = found == left.end() ? 0 : std::exchange(found->second, 0);
      if (repetitions % share.repetitions != 0) return std::nullopt;
      if (more.value_or(repetitions / share.repetitions) != repetitions / share.repetitions)
        return std::nullopt;
      more = repetitions / share.repetitions;
    }
    times[i] += more.value_or(0);
    if (times[i] < 1) return std::nullopt;
  }
  const bool rest = std::any_of(left.begin(), left.end(), [](const auto& l) { return l.second != 0; });
  if (rest) return std::nullopt;
  return ProgramTimer(shared_, std::move(times));
}

TimedStep ProgramTimer::Run(const ActionSeconds& seconds, bool skip) const {
  const TimingOrder& order = shared_->order;
  const std::vector<double> durations = Durations(shared_->actions, order, seconds);
  TimedStep step;
  Clocks clocks = {0}, outputs;
  std::vector<double> values;
  History history;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    const TimingSegment& segment = order.segments[i];
    history.Clear();
    for (std::int64_t left = times_[i]; left > 0;) {
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
  for (const std::int32_t worked : order.worked)
    step.worked_s.push_back(clocks[static_cast<std::size_t>(worked)]);
  return step;
}

absl::StatusOr<TracedStep> TraceProgram(const Program& program, const ActionSeconds& seconds) {
  AUTOCFG_ASSIGN_OR_RETURN(const LoopedProgram looped, LoopsOf(program));
  AUTOCFG_ASSIGN_OR_RETURN(const TimingOrder order, FindTimingOrder(looped, /*with_actions=*/true));
  std::vector<double> values;
  Clocks ends;
  const TimingSegment& segment = order.segments.front();
  const std::vector<double> durations = Durations(looped.actions, order, seconds);
  RunSegment(segment, durations, {0}, values, ends);

  TracedStep step;
  step.compute_busy_s.resize(program.ranks.size());
  step.rows.reserve(looped.actions.size());
  for (std::size_t i = 0; i < looped.actions.size(); ++i) {
    const LoopedProgram::RankAction& action = looped.actions[i];
    const auto n = static_cast<std::size_t>(order.node_of_action[i]);
    const double start = Start(segment.nodes[n], values.data()), end = values[1 + n];
    step.rows.push_back({action.rank, action.action.lane, action.index, start, end});
    step.step_time_s = std::max(step.step_time_s, end);
    if (action.action.lane == Lane::kCompute)
      step.compute_busy_s[static_cast<std::size_t>(action.rank)] += end - start;
  }
  return step;
}

}  // namespace autocfg
