#include <algorithm>
#include <limits>
#include <utility>

#include "search/cost/timing/order_finder.h"

namespace autocfg {
namespace {

// Of the stops after the one that is compared with, all of the first kFewStops are kept in turn, which finds
// short repetitions at once; later ones at powers of two. A power of two. It affects only the size of the
// order.
constexpr std::int64_t kFewStops = 8;

}  // namespace

std::vector<std::int64_t> OrderFinder::StateOfRanks() const {
  std::vector<std::int64_t> state;
  for (const RankProgress& rank : ranks_) {
    state.push_back(static_cast<std::int64_t>(rank.loop));
    state.push_back(static_cast<std::int64_t>(rank.at));
    for (const LaneProgress& lane : rank.lanes) {
      state.push_back(lane.free != kNoValue);
      state.push_back(static_cast<std::int64_t>(lane.ends.size()));
      state.push_back(static_cast<std::int64_t>(lane.issued.size()));
      for (std::size_t i = 0; i < lane.issued.size(); ++i) state.push_back(lane.issued[i].op->action);
    }
  }
  return state;
}

std::int64_t OrderFinder::RepetitionsLeft() const {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const RankProgress& rank = ranks_[r];
    const std::int64_t again = rank.done - done_[r];
    if (again == 0) continue;
    const OpLoop& loop = program_.ranks[r][rank.loop];
    left = std::min(left, (loop.times - rank.done - (rank.at > loop.extra ? 1 : 0)) / again);
  }
  return left;
}

// Compares with the last stop that was kept: each of the first few, then the first, second, fourth, ... after
// it (Brent 1980), so that a repetition of any length is found.
void OrderFinder::CompareStates() {
  for (RankProgress& rank : ranks_) Settle(rank);
  std::vector<std::int64_t> state = StateOfRanks();
  if (state == state_) {
    const std::int64_t left = RepetitionsLeft();
    segment_.times += left;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::int64_t again = ranks_[r].done - done_[r];
      if (again > 0) segment_.shares.push_back({static_cast<std::int32_t>(r), ranks_[r].loop, again});
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankProgress& rank = ranks_[r];
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
  for (const RankProgress& rank : ranks_) done_.push_back(rank.done);
}

void OrderFinder::Cut() {
  std::vector<std::int32_t>& outputs = segment_.outputs;
  const auto add = [&](std::int32_t& value, std::int32_t covered_by) {
    const auto output = static_cast<std::int32_t>(outputs.size());
    outputs.push_back(value);
    segment_.covered_by.push_back(covered_by == kNoValue ? output : covered_by);
    value = output;
    return output;
  };
  order_.worked.clear();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    RankProgress& rank = ranks_[r];
    const std::int32_t clock = add(rank.clock[0], kNoValue);
    rank.clock.fill(clock);
    if (static_cast<std::int32_t>(r) == held_rank_) segment_.reference = clock;
    order_.worked.push_back(add(rank.worked, clock));
    for (LaneProgress& lane : rank.lanes) {
      for (std::size_t i = 0; i < lane.ends.size(); ++i) add(lane.ends[i], clock);
      std::int32_t next = clock;  // what the end of the lane's last action can delay
      for (std::size_t i = 0; i < lane.issued.size(); ++i) {
        const std::int32_t issued = add(lane.issued[i].value, kNoValue);
        if (i == 0) next = issued;
      }
      if (lane.free != kNoValue) add(lane.free, next);
    }
  }
  TimingSegment next;
  next.inputs = next_value_ = static_cast<std::int32_t>(outputs.size());
  order_.segments.push_back(std::exchange(segment_, std::move(next)));
}

}  // namespace autocfg
