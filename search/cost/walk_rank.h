// Where a rank of a walked pipeline (pipeline_walk.h) stands: what it does next, what it waits for, and its
// clocks. A plain value; all that its further times follow from, together with the other ranks'.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace autocfg {

// A message that its sender has issued and that has not been received.
struct WalkSend {
  std::int32_t to = 0;
  bool gradient = false;
  std::uint8_t buffer = 0;
  double issued = 0;

  bool SameMessage(const WalkSend& o) const {
    return to == o.to && gradient == o.gradient && buffer == o.buffer;
  }
};

// What a rank is about to do, clocks and counts aside.
struct WalkMoves {
  std::int32_t forward_stage = 0, backward_stage = 0;  // of the next one of each
  std::int32_t forwards_left = 0, backwards_left = 0;  // on that stage, of the group at hand
  std::int32_t from = 0;                               // who sends what it waits for
  std::uint8_t output = 0, gradient = 0;               // the buffer that is written next, of two of each
  std::uint8_t sends = 0;                              // issued and not received
  bool backward_next = false;
  bool entered = false;                                      // the compute at hand has issued its receive
  bool waiting = false;                                      // for the message of the compute at hand
  std::array<bool, 2> output_sending{}, gradient_sending{};  // the end of the buffer's send is not known yet

  bool operator==(const WalkMoves&) const = default;
};

// It waits at one receive at most, since the compute right behind it does, and its clock then stands at the
// receive's issue; what it sends queues in one lane.
struct WalkRank {
  WalkMoves moves;
  std::int32_t before = 0, after = 0;        // the ranks that messages come from, and go to
  std::int64_t forwards = 0, backwards = 0;  // done
  std::int64_t ahead = 0;                    // forwards before a backward follows each
  double now = 0;
  double send_free = 0;                                  // the lane
  std::array<double, 2> output_free{}, gradient_free{};  // when each buffer can be written again
  std::array<WalkSend, 4> sends{};                       // in order; never more than there are buffers

  enum class Phase : std::uint8_t { kForwards, kAlternating, kBackwards };

  // Of `total` forwards, then backwards in front of which stands a forward, then backwards.
  Phase PhaseOf(std::int64_t total) const {
    if (forwards == total) return Phase::kBackwards;
    return forwards > ahead ? Phase::kAlternating : Phase::kForwards;
  }

  void Push(const WalkSend& send) { sends[moves.sends++] = send; }
  void Pop() {
    std::copy(sends.begin() + 1, sends.end(), sends.begin());
    --moves.sends;
  }
};

}  // namespace autocfg
