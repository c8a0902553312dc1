// When the actions of a program end, straight from its meaning (search/schedule/program.h): slow, and too
// simple to be wrong. What the timer is compared with.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <vector>

#include "search/cost/timing/program_timer.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/program.h"

namespace autocfg::test {

// Requires that a rank has one lane for each kind of message to or from another rank. Ends that are NaN are
// those of actions that are stuck.
class ReferenceTimes {
 public:
  ReferenceTimes(const Program& program, const ActionSeconds& seconds)
      : program_(program), seconds_(seconds), mesh_(program.plan), ranks_(program.ranks.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      ranks_[r].ends.assign(program.ranks[r].size(), std::numeric_limits<double>::quiet_NaN());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        while (Issue(r)) moved = true;
        for (std::size_t lane = 0; lane < kLanes; ++lane) moved = Complete(r, lane) || moved;
      }
    }
  }

  double End(std::size_t rank, std::size_t action) const { return ranks_[rank].ends[action]; }

 private:
  struct Rank {
    std::size_t next = 0;
    double now = 0;
    std::vector<double> ends;
    std::array<std::deque<std::pair<std::size_t, double>>, kLanes> issued;  // action, when
    std::array<double, kLanes> lane_free{};
  };

  static bool Meets(ActionKind kind) { return IsSend(kind) || IsRecv(kind) || LaneOf(kind) == Lane::kReduce; }

  bool Issue(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.next == rank.ends.size()) return false;
    const Action& action = program_.ranks[r][rank.next];
    const std::size_t lane = Index(action.lane);
    for (const std::int32_t after : action.after) {
      if (std::isnan(rank.ends[static_cast<std::size_t>(after)])) return false;
    }
    if (!Meets(action.kind) && !rank.issued[lane].empty()) return false;
    for (const std::int32_t after : action.after)
      rank.now = std::max(rank.now, rank.ends[static_cast<std::size_t>(after)]);
    if (Meets(action.kind)) {
      rank.issued[lane].emplace_back(rank.next, rank.now);
    } else {
      rank.now = std::max(rank.now, rank.lane_free[lane]) + seconds_(static_cast<std::int32_t>(r), action);
      rank.lane_free[lane] = rank.ends[rank.next] = rank.now;
    }
    ++rank.next;
    return true;
  }

  // The lane of the rank whose head is that action; kLanes if there is none.
  std::size_t HeadOf(std::size_t r, ActionKind kind, std::int32_t peer) const {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (ranks_[r].issued[lane].empty()) continue;
      const Action& head = program_.ranks[r][ranks_[r].issued[lane].front().first];
      if (head.kind == kind && head.peer == peer) return lane;
    }
    return kLanes;
  }

  bool Complete(std::size_t r, std::size_t lane) {
    if (ranks_[r].issued[lane].empty()) return false;
    const Action& head = program_.ranks[r][ranks_[r].issued[lane].front().first];
    if (IsRecv(head.kind)) return false;  // with its send
    std::vector<std::pair<std::size_t, std::size_t>> members = {{r, lane}};
    if (IsSend(head.kind)) {
      const auto peer = static_cast<std::size_t>(head.peer);
      members.emplace_back(peer, HeadOf(peer, ReceiveOf(head.kind), static_cast<std::int32_t>(r)));
    } else {
      members.clear();
      for (const std::int64_t member : mesh_.Group(static_cast<std::int64_t>(r), GroupOf(head.kind)))
        members.emplace_back(member, HeadOf(static_cast<std::size_t>(member), head.kind, -1));
    }
    double start = 0, duration = 0;
    for (const auto& [m, l] : members) {
      if (l == kLanes) return false;
      const auto& [action, when] = ranks_[m].issued[l].front();
      start = std::max({start, when, ranks_[m].lane_free[l]});
      duration = std::max(duration, seconds_(static_cast<std::int32_t>(m), program_.ranks[m][action]));
    }
    for (const auto& [m, l] : members) {
      Rank& member = ranks_[m];
      member.lane_free[l] = member.ends[member.issued[l].front().first] = start + duration;
      member.issued[l].pop_front();
    }
    return true;
  }

  const Program& program_;
  const ActionSeconds& seconds_;
  RankMesh mesh_;
  std::vector<Rank> ranks_;
};

}  // namespace autocfg::test
