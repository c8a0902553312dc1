#include "search/breakdown/step_breakdown.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/schedule/action_kinds.h"

namespace autocfg {
namespace {

struct Interval {
  double start_s = 0;
  double end_s = 0;
};

bool IsMessage(ActionKind kind) { return IsSend(kind) || IsRecv(kind); }

double Overlap(const Interval& a, const Interval& b) {
  return std::max(0.0, std::min(a.end_s, b.end_s) - std::max(a.start_s, b.start_s));
}

// Returns the seconds of `whole` in which at least one of the intervals runs.
double Covered(std::vector<Interval> intervals, const Interval& whole) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start_s < b.start_s; });
  double seconds = 0;
  double reached_s = whole.start_s;
  for (const Interval& interval : intervals) {
    seconds += Overlap({std::max(interval.start_s, reached_s), interval.end_s}, whole);
    reached_s = std::max(reached_s, interval.end_s);
  }
  return seconds;
}

class Divider {
 public:
  Divider(const RankProgram& program, std::span<const ActionTime> times, bool alone)
      : program_(program), times_(times), alone_(alone) {}

  RankBreakdown Divide(double step_s) {
    double now_s = 0;
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (IsMessage(program_[i].kind)) continue;
      const ActionTime& time = times_[i];
      const Interval own = {std::max(now_s, time.start_s), std::max(now_s, time.end_s)};
      AddWait({now_s, own.start_s}, MessagesBefore(i));
      AddAction(program_[i].kind, time, own.end_s - own.start_s);
      result_.hidden_comm_s += time.hidden_s;
      if (program_[i].lane == Lane::kReduce) {
        result_.hidden_comm_s += Overlap({time.start_s, time.end_s}, {time.start_s, now_s});
      } else {
        busy_.push_back(own);
      }
      now_s = own.end_s;
    }
    AddWait({now_s, std::max(now_s, step_s)}, AllMessages());
    AddHiddenMessages();
    return result_;
  }

 private:
  // Returns the messages that the action waits for, by itself or through another message.
  std::vector<Interval> MessagesBefore(std::size_t action) const {
    std::vector<Interval> messages;
    std::vector<std::int32_t> open = program_[action].after;
    std::vector<std::int32_t> seen;
    while (!open.empty()) {
      const std::int32_t index = open.back();
      open.pop_back();
      const auto i = static_cast<std::size_t>(index);
      if (!IsMessage(program_[i].kind) || std::find(seen.begin(), seen.end(), index) != seen.end()) continue;
      seen.push_back(index);
      messages.push_back({times_[i].start_s, times_[i].end_s});
      open.insert(open.end(), program_[i].after.begin(), program_[i].after.end());
    }
    return messages;
  }

  std::vector<Interval> AllMessages() const {
    std::vector<Interval> messages;
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (IsMessage(program_[i].kind)) messages.push_back({times_[i].start_s, times_[i].end_s});
    }
    return messages;
  }

  void AddWait(const Interval& wait, const std::vector<Interval>& messages) {
    const double seconds = wait.end_s - wait.start_s;
    const double communicates = Covered(messages, wait);
    result_.parts.pp_comm += communicates;
    (alone_ ? result_.parts.overhead : result_.parts.bubble) += seconds - communicates;
  }

  void AddAction(ActionKind kind, const ActionTime& time, double seconds) {
    Breakdown& parts = result_.parts;
    switch (kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
      case ActionKind::kWeightGradient: {
        const double recompute = std::min(time.recompute_s, seconds);
        const double collective = std::min(time.collective_s, seconds - recompute);
        parts.recompute += recompute;
        const double states = std::min(time.states_s, seconds - recompute - collective);
        parts.tp_comm += collective;
        parts.dp_comm += states;
        parts.compute += seconds - recompute - collective - states;
        return;
      }
      case ActionKind::kZeroScalars:
      case ActionKind::kOptimizer: parts.optimizer += seconds; return;
      case ActionKind::kSumNormGradients: parts.tp_comm += seconds; return;
      case ActionKind::kReduceGradients:
      case ActionKind::kSumTiedEmbedding:
      case ActionKind::kGatherParameters: parts.dp_comm += seconds; return;
      case ActionKind::kReduceScalars: {
        const double collective = std::min(time.collective_s, seconds);
        parts.overhead += collective;
        parts.optimizer += seconds - collective;
        return;
      }
      case ActionKind::kSendActivation:
      case ActionKind::kRecvActivation:
      case ActionKind::kSendGradient:
      case ActionKind::kRecvGradient: return;  // divided by AddWait and AddHiddenMessages
    }
  }

  void AddHiddenMessages() {
    for (const Interval& message : AllMessages()) {
      auto it = std::lower_bound(busy_.begin(), busy_.end(), message.start_s,
                                 [](const Interval& busy, double s) { return busy.end_s < s; });
      for (; it != busy_.end() && it->start_s < message.end_s; ++it)
        result_.hidden_comm_s += Overlap(message, *it);
    }
  }

  const RankProgram& program_;
  const std::span<const ActionTime> times_;
  const bool alone_;
  std::vector<Interval> busy_;  // the computes, in order of time
  RankBreakdown result_;
};

}  // namespace

RankBreakdown BreakdownOfRank(const RankProgram& program, std::span<const ActionTime> times, double step_s,
                              bool alone) {
  return Divider(program, times, alone).Divide(step_s);
}

}  // namespace autocfg
