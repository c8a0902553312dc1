// The state of the ranks while OrderFinder walks a program: positions, clocks, lanes, and channels between
// ranks. "Value" is a point in time, by its number in the current segment (timing_order.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "search/schedule/action_kinds.h"
#include "search/schedule/looped_program.h"

namespace autocfg {

inline constexpr std::int32_t kNoValue = -1;
inline constexpr std::int32_t kNoRank = -1;

// A first-in-first-out queue in a ring buffer that grows.
template <class T>
class RingQueue {
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

// A message or collective that a rank has issued and that is not timed yet.
struct Issued {
  const LoopOp* op = nullptr;
  std::int32_t value = 0;   // of its issue
  std::int64_t number = 0;  // among those of its side of the channel
};

struct LaneProgress {
  std::int64_t timed = 0;        // number of timed actions
  std::int64_t known = 0;        // number of those that the rank has waited for
  std::int32_t free = kNoValue;  // end of the last timed action, unless the rank has waited for it
  RingQueue<Issued> issued;
  RingQueue<std::int32_t> ends;  // of the actions that are timed and not waited for

  std::int64_t count() const { return timed + static_cast<std::int64_t>(issued.size()); }
};

struct RankProgress {
  // Position: a loop, how many of its repetitions are done, and the next op in it.
  std::size_t loop = 0, at = 0;
  std::int64_t done = 0;
  // The rank's clock is the latest of these values: its last value, and those that the rank has waited for
  // since.
  std::array<std::int32_t, 3> clock{};
  std::size_t waits = 0;    // number of the latter
  std::int32_t worked = 0;  // end of its last forward or backward
  bool blocked = false;     // waits for the blocked_until-th action of blocked_lane
  Lane blocked_lane = Lane::kCompute;
  bool queued = false;
  bool stopped = false;  // of the held rank: it has stopped at its position
  std::int64_t blocked_until = 0;
  std::array<LaneProgress, kLanes> lanes;
};

using RankLane = std::pair<std::int32_t, Lane>;

// An action at the head of its lane that waits for the other sides of its channel.
struct Head {
  std::int32_t rank = 0;
  Lane lane = Lane::kCompute;
  std::int64_t number = 0;  // among those of its side of the channel
};

// A pair of ranks that exchange messages of a kind, or a group with collectives of a kind. The n-th actions
// of all sides meet: they end together.
struct Channel {
  std::size_t members = 0;
  // Heads that wait for the other sides. With two members usually one waits: `first`, if `waits`. All other
  // heads are in `others`.
  Head first;
  bool waits = false;
  std::vector<Head> others;
  // The last two durations that met, and the longer one of them: a cache.
  std::array<std::int32_t, 2> of{};
  std::int32_t longer = 0;
};

}  // namespace autocfg
