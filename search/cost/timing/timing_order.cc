#include "search/cost/timing/timing_order.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::int64_t kFewStops = 8;  // a power of two
using What = LoopOp::What;

// First in, first out: a ring that grows.
template <class T>
class Queue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return items_[(first_ + i) & mask_]; }
  const T& operator[](std::size_t i) const { return items_[(first_ + i) & mask_]; }
  T& Add() {
    if (size_ > mask_ || items_.empty()) Grow();
    return (*this)[size_++];
  }
  void Pop(std::size_t count) {
    first_ += count;
    size_ -= count;
  }

 private:
  void Grow() {
    std::vector<T> larger(std::max<std::size_t>(4, 2 * size_));  // a power of two
    for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    items_ = std::move(larger);
    mask_ = items_.size() - 1;
    first_ = 0;
  }

  std::vector<T> items_;
  std::size_t mask_ = 0, first_ = 0, size_ = 0;
};

// An action that is issued and not timed.
struct Issued {
  const LoopOp* op = nullptr;
  std::int32_t value = 0;   // when it was issued
  std::int64_t number = 0;  // on its side of the channel
};

struct LaneState {
  std::int64_t timed = 0;     // actions of the lane that are timed
  std::int64_t known = 0;     // those that the rank has waited for
  std::int32_t free = kNone;  // value: when the last one timed ends, unless the rank waited for it
  Queue<Issued> issued;
  Queue<std::int32_t> ends;  // values of those timed and not waited for

  std::int64_t count() const { return timed + static_cast<std::int64_t>(issued.size()); }
};

struct RankState {
  // Where it is: a loop, how often that is done, and the op in it.
  std::size_t loop = 0, at = 0;
  std::int64_t done = 0;
  // Its clock is the latest of these values: what it was, and what the rank has waited for since.
  std::array<std::int32_t, 3> clock{};
  std::size_t waits = 0;    // of the clock's values
  std::int32_t worked = 0;  // value: the end of its last forward or backward
  // Whether it waits; then for the blocked_until-th action of blocked_lane.
  bool blocked = false;
  Lane blocked_lane = Lane::kCompute;
  bool queued = false;
  bool stopped = false;  // the held rank: it has stopped where it is
  std::int64_t blocked_until = 0;
  std::array<LaneState, kLanes> lanes;
};

using RankLane = std::pair<std::int32_t, Lane>;

// An action at the head of its lane that waits for its other sides.
struct Head {
  std::int32_t rank = 0;
  Lane lane = Lane::kCompute;
  std::int64_t number = 0;  // on its side of the channel
};

struct Channel {
  std::size_t members = 0;
  // Heads that wait for their other sides: of two members the first one that came, all others.
  Head first;
  bool waits = false;  // the first one
  std::vector<Head> others;
  // Two durations, and the longer one: those met last.
  std::array<std::int32_t, 2> of{};
  std::int32_t longer = 0;
};

class OrderFinder {
 public:
  OrderFinder(const LoopedProgram& program, bool with_actions)
      : program_(program),
        with_actions_(with_actions),
        ranks_(program.ranks.size()),
        channels_(program.channels.size()),
        met_(static_cast<std::size_t>(program.sides)) {
    if (with_actions) order_.step_of_action.assign(program.actions.size(), kNone);
    for (std::size_t c = 0; c < channels_.size(); ++c)
      channels_[c].members = static_cast<std::size_t>(program.channels[c]);
    segment_.inputs = next_value_ = 1;
    std::size_t ops = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      SkipEmptyLoops(r);
      for (const OpLoop& loop : program.ranks[r]) ops += loop.ops.size();
      const auto repeats = [](const OpLoop& loop) { return loop.times > 1; };
      const std::vector<OpLoop>& loops = program.ranks[r];
      if (held_rank_ == kNone && std::any_of(loops.begin(), loops.end(), repeats))
        held_rank_ = static_cast<std::int32_t>(r);
    }
    segment_.steps.reserve(ops);
  }

  absl::StatusOr<TimingOrder> Run() {
    for (std::size_t r = ranks_.size(); r-- > 0;) Wake(static_cast<std::int32_t>(r));
    AdvanceAll();
    // Where whole repetitions of its loop are left, the held rank stops until no other rank gets on without
    // it. Where all ranks are then follows from where the held one is.
    while (held_) {
      CompareStates();
      held_ = false;
      Wake(held_rank_);
      AdvanceAll();
    }
    if (absl::Status status = CheckComplete(); !status.ok()) return status;
    Cut();
    return std::move(order_);
  }

 private:
  RankState& At(std::int32_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void SkipEmptyLoops(std::size_t r) {
    RankState& rank = ranks_[r];
    const std::vector<OpLoop>& loops = program_.ranks[r];
    while (rank.loop < loops.size() && (loops[rank.loop].ops.empty() || loops[rank.loop].times < 1))
      ++rank.loop;
  }

  void Wake(std::int32_t r) {
    RankState& rank = At(r);
    if (rank.queued) return;
    rank.queued = true;
    ready_.push_back(r);
  }

  void AdvanceAll() {
    while (!ready_.empty()) {
      const std::int32_t r = ready_.back();
      ready_.pop_back();
      At(r).queued = false;
      running_ = r;
      if (!held_ || r != held_rank_) Advance(r);
    }
  }

  // Goes on until the rank waits for what is not timed yet, is held, or is at its end.
  void Advance(std::int32_t r) {
    RankState& rank = At(r);
    const std::vector<OpLoop>& loops = program_.ranks[static_cast<std::size_t>(r)];
    while (rank.loop < loops.size()) {
      const OpLoop& loop = loops[rank.loop];
      const bool repeats = rank.done < loop.times;
      const bool stops = r == held_rank_ && repeats && loop.times > 1;
      if (stops && rank.at == loop.extra && !std::exchange(rank.stopped, true)) {
        held_ = true;
        return;
      }
      rank.stopped = false;
      const bool to_extra = !repeats || (stops && rank.at < loop.extra);
      const std::size_t end = to_extra ? loop.extra : loop.ops.size();
      for (; rank.at < end; ++rank.at) {
        const LoopOp& op = loop.ops[rank.at];
        if (op.back >= 0 && !Wait(rank, op)) return;
        if (op.what == What::kRun) {
          Work(rank, op);
        } else if (op.what == What::kMeet) {
          Issue(r, rank, op);
          if (rank.blocked) {
            ++rank.at;
            return;
          }
        }
      }
      if (rank.at == loop.ops.size()) {
        rank.at = 0;
        ++rank.done;
      }
      if (AtEnd(loop, rank)) NextLoop(r);
    }
  }

  static bool AtEnd(const OpLoop& loop, const RankState& rank) {
    return rank.done == loop.times && rank.at == loop.extra;
  }

  void NextLoop(std::int32_t r) {
    RankState& rank = At(r);
    rank.done = 0;
    rank.at = 0;
    ++rank.loop;
    SkipEmptyLoops(static_cast<std::size_t>(r));
  }

  bool Wait(RankState& rank, const LoopOp& op) {
    LaneState& lane = rank.lanes[Index(op.wait_lane)];
    const std::int64_t number = lane.count() - op.back;
    rank.blocked = number > lane.timed;
    if (rank.blocked) {
      rank.blocked_lane = op.wait_lane;
      rank.blocked_until = number;
      return false;
    }
    if (number <= lane.known) return true;
    const auto passed = static_cast<std::size_t>(number - lane.known);
    if (rank.waits == 2) Settle(rank);
    rank.clock[++rank.waits] = lane.ends[passed - 1];
    lane.ends.Pop(passed);
    lane.known = number;
    if (number == lane.count()) lane.free = kNone;
    return true;
  }

  // Makes one value of the rank's clock and `seconds`, an index.
  void MoveClock(RankState& rank, std::int32_t seconds) {
    rank.clock.fill(Append(rank.clock, seconds));
    rank.waits = 0;
  }

  void Settle(RankState& rank) {
    if (rank.waits > 0) MoveClock(rank, 0);
  }

  void Work(RankState& rank, const LoopOp& op) {
    MoveClock(rank, op.action + 1);
    if (with_actions_) NoteAction(op);
    if (!op.of_microbatch) return;
    rank.worked = rank.clock[0];
    ++segment_.computes;
  }

  void Issue(std::int32_t r, RankState& rank, const LoopOp& op) {
    Settle(rank);
    LaneState& lane = rank.lanes[Index(op.lane)];
    const std::int64_t number = met_[static_cast<std::size_t>(op.side)]++;
    Issued& issued = lane.issued.Add();
    issued.op = &op;
    issued.value = rank.clock[0];
    issued.number = number;
    if (op.awaited) {
      rank.blocked = true;
      rank.blocked_lane = op.lane;
      rank.blocked_until = lane.count();
    }
    if (lane.issued.size() > 1) return;
    ReachHead(r, op.lane, number, op.channel);
    while (!reached_.empty()) {
      const auto [next_rank, next_lane] = reached_.back();
      reached_.pop_back();
      const Issued& head = At(next_rank).lanes[Index(next_lane)].issued[0];
      ReachHead(next_rank, next_lane, head.number, head.op->channel);
    }
  }

  // Called when an action comes to the head of its lane. It meets its other sides if they are all there.
  void ReachHead(std::int32_t rank, Lane lane, std::int64_t number, std::int32_t channel) {
    Channel& at = channels_[static_cast<std::size_t>(channel)];
    if (at.members == 2 && at.others.empty()) {
      if (!at.waits) {
        at.first.rank = rank;
        at.first.lane = lane;
        at.first.number = number;
        at.waits = true;
        return;
      }
      if (at.first.number == number) {
        at.waits = false;
        return Meet(at, std::array<RankLane, 2>{{{at.first.rank, at.first.lane}, {rank, lane}}});
      }
    }
    if (std::exchange(at.waits, false)) at.others.push_back(at.first);
    at.others.push_back({rank, lane, number});
    if (at.others.size() < at.members) return;
    // Heads of other numbers are there only if a rank has some lanes for one channel.
    const auto end =
        std::partition(at.others.begin(), at.others.end(), [&](const Head& h) { return h.number == number; });
    if (end != at.others.begin() + static_cast<std::ptrdiff_t>(at.members)) return;
    std::vector<RankLane> met;
    for (auto head = at.others.begin(); head != end; ++head) met.emplace_back(head->rank, head->lane);
    at.others.erase(at.others.begin(), end);
    Meet(at, met);
  }

  // Times the heads of these lanes, which meet. Lanes that get a new head are added to reached_.
  template <class RankLanes>
  void Meet(Channel& channel, const RankLanes& lanes) {
    std::array<std::int32_t, 3> after{};
    std::size_t used = 0;
    const auto add = [&](std::int32_t value) {
      if (used == after.size()) {  // they become one value
        after.fill(Append(after, 0));
        used = 1;
      }
      if (used == 0) after.fill(value);
      after[used++] = value;
    };
    std::int32_t seconds = 0;
    for (const auto& [r, l] : lanes) {
      const LaneState& lane = At(r).lanes[Index(l)];
      add(lane.issued[0].value);
      if (lane.free != kNone) add(lane.free);
      seconds = Longer(channel, seconds, lane.issued[0].op->action + 1);
    }
    const std::int32_t end = Append(after, seconds);
    for (const auto& [r, l] : lanes) Complete(r, l, end);
  }

  // The head of a lane is timed.
  void Complete(std::int32_t r, Lane l, std::int32_t end) {
    RankState& rank = At(r);
    LaneState& lane = rank.lanes[Index(l)];
    const LoopOp& op = *lane.issued[0].op;
    if (with_actions_) NoteAction(op);
    lane.issued.Pop(1);
    ++lane.timed;
    if (op.awaited) {  // it was issued last, and is the one that the rank waits for
      rank.clock[++rank.waits] = end;
      lane.known = lane.timed;
      lane.ends.Pop(lane.ends.size());
      lane.free = kNone;
    } else {
      lane.ends.Add() = end;
      lane.free = end;
      if (!lane.issued.empty()) reached_.emplace_back(r, l);
    }
    if (rank.blocked && rank.blocked_lane == l && rank.blocked_until <= lane.timed) {
      rank.blocked = false;
      if (r != running_) Wake(r);
    }
  }

  // The index of the longer of two durations.
  std::int32_t Longer(Channel& channel, std::int32_t a, std::int32_t b) {
    if (a == 0 || a == b) return b;
    if (channel.of[0] == a && channel.of[1] == b) return channel.longer;
    const auto next = static_cast<std::int32_t>(1 + program_.actions.size() + order_.longer.size());
    const auto [found, made] = longer_.try_emplace({a, b}, next);
    if (made) order_.longer.emplace_back(a, b);
    channel.of = {a, b};
    return channel.longer = found->second;
  }

  // Appends a step; returns its value.
  std::int32_t Append(const std::array<std::int32_t, 3>& after, std::int32_t seconds) {
    TimingStep& step = segment_.steps.emplace_back();
    step.after = after;
    step.seconds = seconds;
    return next_value_++;
  }

  void NoteAction(const LoopOp& op) {
    order_.step_of_action[static_cast<std::size_t>(op.action)] =
        static_cast<std::int32_t>(segment_.steps.size()) - 1;
  }

  // Where all ranks are, clocks and counts of repetitions aside. What they do next follows from it.
  std::vector<std::int64_t> StateOfRanks() const {
    std::vector<std::int64_t> state;
    for (const RankState& rank : ranks_) {
      state.push_back(static_cast<std::int64_t>(rank.loop));
      state.push_back(static_cast<std::int64_t>(rank.at));
      for (const LaneState& lane : rank.lanes) {
        state.push_back(lane.free != kNone);
        state.push_back(static_cast<std::int64_t>(lane.ends.size()));
        state.push_back(static_cast<std::int64_t>(lane.issued.size()));
        for (std::size_t i = 0; i < lane.issued.size(); ++i) state.push_back(lane.issued[i].op->action);
      }
    }
    return state;
  }

  // How often all ranks can do again what they did since `done_`, without leaving their loops.
  std::int64_t RepetitionsLeft() const {
    std::int64_t left = std::numeric_limits<std::int64_t>::max();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const RankState& rank = ranks_[r];
      const std::int64_t again = rank.done - done_[r];
      if (again == 0) continue;
      const OpLoop& loop = program_.ranks[r][rank.loop];
      left = std::min(left, (loop.times - rank.done - (rank.at > loop.extra ? 1 : 0)) / again);
    }
    return left;
  }

  // Looks for an earlier stop of the held rank at which all ranks were where they are now: what they did
  // since then they do again, as long as they stay in their loops. Compares with the last stop that was kept:
  // each of the first few, then the first, second, fourth, ... after it (Brent 1980), so that a repetition of
  // any length is found.
  void CompareStates() {
    for (RankState& rank : ranks_) Settle(rank);
    std::vector<std::int64_t> state = StateOfRanks();
    if (state == state_) {
      const std::int64_t left = RepetitionsLeft();
      segment_.times += left;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        RankState& rank = ranks_[r];
        rank.done += left * (rank.done - done_[r]);
        if (rank.loop == program_.ranks[r].size() || !AtEnd(program_.ranks[r][rank.loop], rank)) continue;
        NextLoop(static_cast<std::int32_t>(r));
        rank.blocked = false;  // its next op is another one
        Wake(static_cast<std::int32_t>(r));
      }
      stops_ = 0;
    } else if (stops_ >= kFewStops && (stops_ & (stops_ - 1)) != 0) {
      ++stops_;
      return;
    }
    ++stops_;
    Cut();
    state_ = std::move(state);
    done_.clear();
    for (const RankState& rank : ranks_) done_.push_back(rank.done);
  }

  // Ends the segment; the next one begins with its outputs.
  void Cut() {
    std::vector<std::int32_t>& outputs = segment_.outputs;
    const auto add = [&](std::int32_t& value, std::int32_t least) {
      const auto output = static_cast<std::int32_t>(outputs.size());
      outputs.push_back(value);
      segment_.least.push_back(least == kNone ? output : least);
      value = output;
      return output;
    };
    order_.worked.clear();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankState& rank = ranks_[r];
      const std::int32_t clock = add(rank.clock[0], kNone);
      rank.clock.fill(clock);
      if (static_cast<std::int32_t>(r) == held_rank_) segment_.reference = clock;
      order_.worked.push_back(add(rank.worked, clock));
      for (LaneState& lane : rank.lanes) {
        for (std::size_t i = 0; i < lane.ends.size(); ++i) add(lane.ends[i], clock);
        std::int32_t next = clock;  // what the lane's end can hold up
        for (std::size_t i = 0; i < lane.issued.size(); ++i) {
          const std::int32_t issued = add(lane.issued[i].value, kNone);
          if (i == 0) next = issued;
        }
        if (lane.free != kNone) add(lane.free, next);
      }
    }
    TimingSegment next;
    next.inputs = next_value_ = static_cast<std::int32_t>(outputs.size());
    order_.segments.push_back(std::exchange(segment_, std::move(next)));
  }

  absl::Status Stuck(std::size_t rank, std::int32_t action, std::string_view why) const {
    const LoopedProgram::RankAction& stuck = program_.actions[static_cast<std::size_t>(action)];
    return absl::FailedPreconditionError(
        fmt::format("rank {}: action {} ({}) is stuck: {}", rank, stuck.index, ToString(stuck.action), why));
  }

  absl::Status CheckComplete() const {
    // An action that was issued and has no other side comes first: it is what the others wait for.
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const LaneState& lane : ranks_[r].lanes) {
        if (!lane.issued.empty())
          return Stuck(r, lane.issued[0].op->action, "the other side never issues it");
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const RankState& rank = ranks_[r];
      if (rank.loop == program_.ranks[r].size()) continue;
      const std::vector<LoopOp>& ops = program_.ranks[r][rank.loop].ops;
      const auto here = ops.begin() + static_cast<std::ptrdiff_t>(rank.at);
      const auto acts = [](const LoopOp& op) { return op.what != What::kWait; };
      auto waiting = std::find_if(here, ops.end(), acts);
      if (waiting == ops.end()) waiting = std::find_if(ops.begin(), here, acts);  // around the loop
      return Stuck(r, waiting->action, "what it waits for never completes");
    }
    return absl::OkStatus();
  }

  const LoopedProgram& program_;
  const bool with_actions_;
  TimingOrder order_;
  TimingSegment segment_;
  std::int32_t next_value_ = 0;  // of the segment's next step
  std::vector<RankState> ranks_;
  std::vector<std::int32_t> ready_;
  std::vector<Channel> channels_;
  std::vector<std::int64_t> met_;  // by side: actions issued
  std::vector<RankLane> reached_;  // lanes whose head is new
  absl::flat_hash_map<std::pair<std::int32_t, std::int32_t>, std::int32_t> longer_;
  std::int32_t held_rank_ = kNone;
  bool held_ = false;
  std::int32_t running_ = kNone;  // the rank that advances
  // At the stop that the next ones are compared with.
  std::vector<std::int64_t> state_, done_;
  std::int64_t stops_ = 0;
};

}  // namespace

absl::StatusOr<TimingOrder> FindTimingOrder(const LoopedProgram& program, bool with_actions) {
  return OrderFinder(program, with_actions).Run();
}

}  // namespace autocfg
