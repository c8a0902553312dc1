#include "search/cost/timing/order_finder.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

using What = LoopOp::What;

}  // namespace

OrderFinder::OrderFinder(const LoopedProgram& program, bool with_actions)
    : program_(program),
      with_actions_(with_actions),
      ranks_(program.ranks.size()),
      channels_(program.channels.size()),
      met_(static_cast<std::size_t>(program.sides)) {
  if (with_actions) order_.node_of_action.assign(program.actions.size(), kNoValue);
  for (std::size_t c = 0; c < channels_.size(); ++c)
    channels_[c].members = static_cast<std::size_t>(program.channels[c]);
  segment_.inputs = next_value_ = 1;
  std::size_t ops = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    SkipEmptyLoops(r);
    for (const OpLoop& loop : program.ranks[r]) ops += loop.ops.size();
    const auto repeats = [](const OpLoop& loop) { return loop.times > 1; };
    const std::vector<OpLoop>& loops = program.ranks[r];
    if (held_rank_ == kNoRank && std::any_of(loops.begin(), loops.end(), repeats))
      held_rank_ = static_cast<std::int32_t>(r);
  }
  segment_.nodes.reserve(ops);
}

absl::StatusOr<TimingOrder> OrderFinder::Run() {
  for (std::size_t r = ranks_.size(); r-- > 0;) Wake(static_cast<std::int32_t>(r));
  AdvanceAll();
  while (held_) {
    CompareStates();
    held_ = false;
    Wake(held_rank_);
    AdvanceAll();
  }
  AUTOCFG_RETURN_IF_ERROR(CheckComplete());
  Cut();
  return std::move(order_);
}

void OrderFinder::SkipEmptyLoops(std::size_t r) {
  RankProgress& rank = ranks_[r];
  const std::vector<OpLoop>& loops = program_.ranks[r];
  while (rank.loop < loops.size() && (loops[rank.loop].ops.empty() || loops[rank.loop].times < 1))
    ++rank.loop;
}

void OrderFinder::Wake(std::int32_t r) {
  RankProgress& rank = At(r);
  if (rank.queued) return;
  rank.queued = true;
  ready_.push_back(r);
}

void OrderFinder::AdvanceAll() {
  while (!ready_.empty()) {
    const std::int32_t r = ready_.back();
    ready_.pop_back();
    At(r).queued = false;
    running_ = r;
    if (!held_ || r != held_rank_) Advance(r);
  }
}

void OrderFinder::Advance(std::int32_t r) {
  RankProgress& rank = At(r);
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

bool OrderFinder::AtEnd(const OpLoop& loop, const RankProgress& rank) {
  return rank.done == loop.times && rank.at == loop.extra;
}

void OrderFinder::NextLoop(std::int32_t r) {
  RankProgress& rank = At(r);
  rank.done = 0;
  rank.at = 0;
  ++rank.loop;
  SkipEmptyLoops(static_cast<std::size_t>(r));
}

bool OrderFinder::Wait(RankProgress& rank, const LoopOp& op) {
  LaneProgress& lane = rank.lanes[Index(op.wait_lane)];
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
  if (number == lane.count()) lane.free = kNoValue;
  return true;
}

void OrderFinder::MoveClock(RankProgress& rank, std::int32_t seconds) {
  rank.clock.fill(Append(rank.clock, seconds));
  rank.waits = 0;
}

void OrderFinder::Settle(RankProgress& rank) {
  if (rank.waits > 0) MoveClock(rank, 0);
}

void OrderFinder::Work(RankProgress& rank, const LoopOp& op) {
  MoveClock(rank, op.action + 1);
  if (with_actions_) NoteAction(op);
  if (!op.of_microbatch) return;
  rank.worked = rank.clock[0];
  ++segment_.computes;
}

void OrderFinder::Issue(std::int32_t r, RankProgress& rank, const LoopOp& op) {
  Settle(rank);
  LaneProgress& lane = rank.lanes[Index(op.lane)];
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

void OrderFinder::ReachHead(std::int32_t rank, Lane lane, std::int64_t number, std::int32_t channel) {
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
  // Heads of other numbers exist only if a rank has several lanes for one channel.
  const auto end =
      std::partition(at.others.begin(), at.others.end(), [&](const Head& h) { return h.number == number; });
  if (end != at.others.begin() + static_cast<std::ptrdiff_t>(at.members)) return;
  std::vector<RankLane> met;
  for (auto head = at.others.begin(); head != end; ++head) met.emplace_back(head->rank, head->lane);
  at.others.erase(at.others.begin(), end);
  Meet(at, met);
}

template <class RankLanes>
void OrderFinder::Meet(Channel& channel, const RankLanes& lanes) {
  std::array<std::int32_t, 3> after{};
  std::size_t used = 0;
  const auto add = [&](std::int32_t value) {
    if (used == after.size()) {  // merges them into one value
      after.fill(Append(after, 0));
      used = 1;
    }
    if (used == 0) after.fill(value);
    after[used++] = value;
  };
  std::int32_t seconds = 0;
  for (const auto& [r, l] : lanes) {
    const LaneProgress& lane = At(r).lanes[Index(l)];
    add(lane.issued[0].value);
    if (lane.free != kNoValue) add(lane.free);
    seconds = Longer(channel, seconds, lane.issued[0].op->action + 1);
  }
  const std::int32_t end = Append(after, seconds);
  for (const auto& [r, l] : lanes) Complete(r, l, end);
}

void OrderFinder::Complete(std::int32_t r, Lane l, std::int32_t end) {
  RankProgress& rank = At(r);
  LaneProgress& lane = rank.lanes[Index(l)];
  const LoopOp& op = *lane.issued[0].op;
  if (with_actions_) NoteAction(op);
  lane.issued.Pop(1);
  ++lane.timed;
  if (op.awaited) {  // the last one issued; the rank waits for it
    rank.clock[++rank.waits] = end;
    lane.known = lane.timed;
    lane.ends.Pop(lane.ends.size());
    lane.free = kNoValue;
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

std::int32_t OrderFinder::Longer(Channel& channel, std::int32_t a, std::int32_t b) {
  if (a == 0 || a == b) return b;
  if (channel.of[0] == a && channel.of[1] == b) return channel.longer;
  const auto next = static_cast<std::int32_t>(1 + program_.actions.size() + order_.longer.size());
  const auto [found, made] = longer_.try_emplace({a, b}, next);
  if (made) order_.longer.emplace_back(a, b);
  channel.of = {a, b};
  return channel.longer = found->second;
}

std::int32_t OrderFinder::Append(const std::array<std::int32_t, 3>& after, std::int32_t seconds) {
  TimingNode& node = segment_.nodes.emplace_back();
  node.after = after;
  node.seconds = seconds;
  return next_value_++;
}

void OrderFinder::NoteAction(const LoopOp& op) {
  order_.node_of_action[static_cast<std::size_t>(op.action)] =
      static_cast<std::int32_t>(segment_.nodes.size()) - 1;
}

absl::Status OrderFinder::Stuck(std::size_t rank, std::int32_t action, std::string_view why) const {
  const LoopedProgram::RankAction& stuck = program_.actions[static_cast<std::size_t>(action)];
  return absl::FailedPreconditionError(
      fmt::format("rank {}: action {} ({}) is stuck: {}", rank, stuck.index, ToString(stuck.action), why));
}

absl::Status OrderFinder::CheckComplete() const {
  // An action without another side is reported first: the other ranks wait for it.
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (const LaneProgress& lane : ranks_[r].lanes) {
      if (!lane.issued.empty()) return Stuck(r, lane.issued[0].op->action, "the other side never issues it");
    }
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const RankProgress& rank = ranks_[r];
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

absl::StatusOr<TimingOrder> FindTimingOrder(const LoopedProgram& program, bool with_actions) {
  return OrderFinder(program, with_actions).Run();
}

}  // namespace autocfg
