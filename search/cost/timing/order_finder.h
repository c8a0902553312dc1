// Walks a program and finds its timing order (timing_order.h).
//
// 1. Each rank advances until it waits for an action that is not timed yet (order_finder.cc: Advance).
// 2. A message or collective is timed once it is at the head of its lane on all its sides (ReachHead, Meet).
// 3. The first rank with a repeated loop, the held rank, stops at each repetition until no other rank can
//    advance without it. The positions of all ranks then follow from that of the held rank (Run).
// 4. If all ranks are where they were at an earlier stop, they will repeat the nodes since then. Those become
//    one segment that runs as often as all ranks stay in their loops (order_repetitions.cc: CompareStates).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "search/cost/timing/rank_progress.h"
#include "search/cost/timing/timing_order.h"
#include "search/schedule/looped_program.h"

namespace autocfg {

// For one call of Run. Refers to the program.
class OrderFinder {
 public:
  OrderFinder(const LoopedProgram& program, bool with_actions);

  // As FindTimingOrder.
  absl::StatusOr<TimingOrder> Run();

 private:
  RankProgress& At(std::int32_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  // The walk.
  void SkipEmptyLoops(std::size_t r);
  void Wake(std::int32_t r);
  void AdvanceAll();
  // Runs until the rank waits for an action that is not timed yet, is held, or has ended.
  void Advance(std::int32_t r);
  static bool AtEnd(const OpLoop& loop, const RankProgress& rank);
  void NextLoop(std::int32_t r);
  // Returns false if the rank must wait.
  bool Wait(RankProgress& rank, const LoopOp& op);
  void Work(RankProgress& rank, const LoopOp& op);
  void Issue(std::int32_t r, RankProgress& rank, const LoopOp& op);
  // Called when an action reaches the head of its lane. It meets its other sides if all are there.
  void ReachHead(std::int32_t rank, Lane lane, std::int64_t number, std::int32_t channel);
  // Times the heads of these lanes, which meet. Adds lanes with a new head to reached_.
  template <class RankLanes>
  void Meet(Channel& channel, const RankLanes& lanes);
  // Marks the head of a lane as timed.
  void Complete(std::int32_t r, Lane lane, std::int32_t end);

  // The nodes.
  // Makes one value of the rank's clock plus a duration.
  void MoveClock(RankProgress& rank, std::int32_t seconds);
  void Settle(RankProgress& rank);
  // Returns the index of the longer of two durations.
  std::int32_t Longer(Channel& channel, std::int32_t a, std::int32_t b);
  // Appends a node; returns its value.
  std::int32_t Append(const std::array<std::int32_t, 3>& after, std::int32_t seconds);
  void NoteAction(const LoopOp& op);

  // The repetitions. Returns the positions of all ranks, without clocks and counts of repetitions. They
  // determine what the ranks do next.
  std::vector<std::int64_t> StateOfRanks() const;
  // Returns how often all ranks can repeat what they did since `done_` without leaving their loops.
  std::int64_t RepetitionsLeft() const;
  // Compares the state with that of an earlier stop.
  void CompareStates();
  // Ends the segment; the next one begins with its outputs.
  void Cut();

  // The errors.
  absl::Status Stuck(std::size_t rank, std::int32_t action, std::string_view why) const;
  absl::Status CheckComplete() const;

  const LoopedProgram& program_;
  const bool with_actions_;
  TimingOrder order_;
  TimingSegment segment_;
  std::int32_t next_value_ = 0;  // of the segment's next node
  std::vector<RankProgress> ranks_;
  std::vector<std::int32_t> ready_;  // ranks that can advance
  std::vector<Channel> channels_;
  std::vector<std::int64_t> met_;  // by side: actions issued
  std::vector<RankLane> reached_;  // lanes with a new head
  absl::flat_hash_map<std::pair<std::int32_t, std::int32_t>, std::int32_t> longer_;
  std::int32_t held_rank_ = kNoRank;
  bool held_ = false;               // the held rank has stopped
  std::int32_t running_ = kNoRank;  // the rank that advances
  // At the stop that the next ones are compared with: StateOfRanks, and the repetitions done, by rank.
  std::vector<std::int64_t> state_, done_;
  std::int64_t stops_ = 0;  // since that one was first compared
};

}  // namespace autocfg
