#include "search/cost/pipeline_simulator.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "fmt/format.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::optional<CommGroup> CollectiveGroup(ActionKind kind) {
  switch (kind) {
    case ActionKind::kReduceGradients: return CommGroup::kData;
    case ActionKind::kSumTiedEmbedding: return CommGroup::kEmbedding;
    case ActionKind::kReduceScalars: return CommGroup::kWorld;
    default: return std::nullopt;
  }
}

bool IsActivation(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kRecvActivation;
}

// What several ranks do together: a send with its receive, or a collective. It runs once each member's action
// is at the head of its lane.
struct Transfer {
  std::vector<std::pair<std::int32_t, std::int32_t>> members;  // rank, action
  std::size_t expected = 0;
  std::size_t at_head = 0;
};

struct ActionState {
  double issued = kUnknown;
  double start = kUnknown;
  double end = kUnknown;  // known once the action has been timed, even if that lies ahead of other clocks
  std::int32_t transfer = -1;
};

struct RankState {
  std::size_t next = 0;  // first action not yet reached
  double now = 0;
  std::vector<ActionState> actions;
  std::array<std::deque<std::int32_t>, kLanes> waiting;  // issued, not yet timed
  std::array<double, kLanes> lane_free{};
  bool queued = false;
};

// No resource is fought over: the order of every lane is given. So the times do not depend on the order in
// which ranks are advanced.
class Simulator {
 public:
  Simulator(const Program& program, const ActionSeconds& seconds)
      : program_(program), seconds_(seconds), ranks_(program.ranks.size()) {}

  absl::StatusOr<SimulatedStep> Run() {
    if (absl::Status status = MatchTransfers(); !status.ok()) return status;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) Wake(rank);
    while (!runnable_.empty()) {
      const std::size_t rank = runnable_.front();
      runnable_.pop_front();
      ranks_[rank].queued = false;
      Advance(rank);
    }
    if (absl::Status status = CheckComplete(); !status.ok()) return status;
    return Collect();
  }

 private:
  const Action& ActionAt(std::size_t rank, std::size_t index) const { return program_.ranks[rank][index]; }

  absl::Status Broken(std::size_t rank, std::size_t index, std::string_view what) const {
    return absl::FailedPreconditionError(
        fmt::format("rank {}: action {} ({}) {}", rank, index, ToString(ActionAt(rank, index)), what));
  }

  // Finds who takes part in what: the n-th send with the n-th receive of a pair and kind, the n-th collective
  // of a group and kind.
  absl::Status MatchTransfers() {
    using Key = std::tuple<int, std::int64_t, std::int64_t,
                           int>;  // what, source or first of the group, target or -1, n
    std::map<Key, std::int32_t> ids;
    const RankMesh mesh(program_.plan);
    const auto count = static_cast<std::int32_t>(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankProgram& actions = program_.ranks[rank];
      RankState& state = ranks_[rank];
      state.actions.resize(actions.size());
      std::map<std::tuple<int, std::int64_t, std::int64_t>, int> seen;
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const Action& action = actions[i];
        for (std::int32_t after : action.after) {
          if (after < 0 || static_cast<std::size_t>(after) >= i) {
            return Broken(rank, i, fmt::format("waits for action {}, which does not stand before it", after));
          }
        }
        int what;
        std::int64_t from, to = -1;
        std::size_t expected = 2;
        const auto self = static_cast<std::int64_t>(rank);
        if (const auto group = CollectiveGroup(action.kind)) {
          const std::vector<std::int64_t> members = mesh.Group(self, *group);
          what = 2 + static_cast<int>(*group);
          from = members.front();
          expected = members.size();
        } else if (IsSend(action.kind) || IsRecv(action.kind)) {
          if (action.peer < 0 || action.peer >= count) return Broken(rank, i, "has a peer that is no rank");
          what = IsActivation(action.kind) ? 0 : 1;
          from = IsSend(action.kind) ? self : action.peer;
          to = IsSend(action.kind) ? action.peer : self;
        } else {
          continue;
        }
        // A rank's sends and receives of one pair differ in source, so that `seen` counts each on its own.
        const int n = seen[{what, from, to}]++;
        const auto [it, made] =
            ids.try_emplace({what, from, to, n}, static_cast<std::int32_t>(transfers_.size()));
        if (made) transfers_.push_back({{}, expected, 0});
        transfers_[static_cast<std::size_t>(it->second)].members.emplace_back(static_cast<std::int32_t>(rank),
                                                                              static_cast<std::int32_t>(i));
        state.actions[i].transfer = it->second;
      }
    }
    return absl::OkStatus();
  }

  void Wake(std::size_t rank) {
    if (ranks_[rank].queued) return;
    ranks_[rank].queued = true;
    runnable_.push_back(rank);
  }

  // Walks on until the rank waits for something whose time is not known.
  void Advance(std::size_t rank) {
    RankState& state = ranks_[rank];
    const RankProgram& actions = program_.ranks[rank];
    for (; state.next < actions.size(); ++state.next) {
      const Action& action = actions[state.next];
      ActionState& own = state.actions[state.next];
      for (std::int32_t after : action.after) {
        const double end = state.actions[static_cast<std::size_t>(after)].end;
        if (end != end) return;  // not known yet
        state.now = std::max(state.now, end);
      }
      own.issued = state.now;
      const auto lane = static_cast<std::size_t>(action.lane);
      if (own.transfer < 0) {
        own.start = std::max(state.now, state.lane_free[lane]);
        own.end = own.start + seconds_(static_cast<std::int32_t>(rank), action);
        state.now = state.lane_free[lane] = own.end;
        continue;
      }
      state.waiting[lane].push_back(static_cast<std::int32_t>(state.next));
      if (state.waiting[lane].size() == 1) ReachHead(own.transfer);
    }
  }

  // One more member stands at the head of its lane; times the transfer when it was the last, and those it
  // frees.
  void ReachHead(std::int32_t first) {
    std::vector<std::int32_t> reached = {first};
    while (!reached.empty()) {
      Transfer& transfer = transfers_[static_cast<std::size_t>(reached.back())];
      reached.pop_back();
      if (++transfer.at_head < transfer.expected) continue;
      double start = 0, duration = 0;
      for (const auto& [rank, index] : transfer.members) {
        const RankState& state = ranks_[static_cast<std::size_t>(rank)];
        const Action& action = ActionAt(static_cast<std::size_t>(rank), static_cast<std::size_t>(index));
        start = std::max({start, state.actions[static_cast<std::size_t>(index)].issued,
                          state.lane_free[static_cast<std::size_t>(action.lane)]});
        duration = std::max(duration, seconds_(rank, action));
      }
      for (const auto& [rank, index] : transfer.members) {
        RankState& state = ranks_[static_cast<std::size_t>(rank)];
        ActionState& own = state.actions[static_cast<std::size_t>(index)];
        const auto lane = static_cast<std::size_t>(
            ActionAt(static_cast<std::size_t>(rank), static_cast<std::size_t>(index)).lane);
        own.start = start;
        own.end = start + duration;
        state.lane_free[lane] = own.end;
        state.waiting[lane].pop_front();
        if (!state.waiting[lane].empty()) {
          reached.push_back(state.actions[static_cast<std::size_t>(state.waiting[lane].front())].transfer);
        }
        Wake(static_cast<std::size_t>(rank));
      }
    }
  }

  absl::Status CheckComplete() const {
    // An action that was issued and never met its other side comes first: it is what the others wait for.
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const std::deque<std::int32_t>& lane : ranks_[rank].waiting) {
        if (!lane.empty()) {
          return Broken(rank, static_cast<std::size_t>(lane.front()),
                        "is stuck: the other side never comes to it");
        }
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].next < program_.ranks[rank].size()) {
        return Broken(rank, ranks_[rank].next, "is stuck: what it waits for never completes");
      }
    }
    return absl::OkStatus();
  }

  SimulatedStep Collect() const {
    SimulatedStep step;
    step.compute_busy_s.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t i = 0; i < ranks_[rank].actions.size(); ++i) {
        const ActionState& state = ranks_[rank].actions[i];
        const Lane lane = ActionAt(rank, i).lane;
        if (lane == Lane::kCompute) step.compute_busy_s[rank] += state.end - state.start;
        step.step_time_s = std::max(step.step_time_s, state.end);
        step.rows.push_back(
            {static_cast<std::int32_t>(rank), lane, static_cast<std::int32_t>(i), state.start, state.end});
      }
    }
    return step;
  }

  const Program& program_;
  const ActionSeconds& seconds_;
  std::vector<RankState> ranks_;
  std::vector<Transfer> transfers_;
  std::deque<std::size_t> runnable_;
};

}  // namespace

absl::StatusOr<SimulatedStep> SimulateProgram(const Program& program, const ActionSeconds& seconds) {
  return Simulator(program, seconds).Run();
}

}  // namespace autocfg
