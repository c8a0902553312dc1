// A program in the form that the timer (search/cost/timing/program_timer.h) reads: the actions of each rank
// as loops. What a rank repeats is kept once, so that the size does not depend on the number of microbatches.
//
// Waits for computes are left out: a rank runs one compute after the other anyway.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/compute_order.h"
#include "search/schedule/program.h"
#include "search/schedule/rank_lowering.h"

namespace autocfg {

struct LoopOp {
  enum class What : std::uint8_t {
    kWait,  // nothing but the wait
    kRun,   // the rank is busy
    kMeet,  // issues a message or a collective
  };
  What what = What::kRun;
  Lane lane = Lane::kCompute;
  bool of_microbatch = false;  // kRun: a forward or backward
  bool awaited = false;        // kMeet: the rank waits for it at once, otherwise it goes on
  // First the rank waits until a message or collective of this lane is complete: the last one issued, or the
  // `back`-th before it. -1: it waits for none.
  Lane wait_lane = Lane::kCompute;
  std::int32_t back = -1;
  std::int32_t action = -1;   // kRun, kMeet: index in LoopedProgram::actions
  std::int32_t channel = -1;  // kMeet: the n-th of each side of a channel meet
  std::int32_t side = -1;     // kMeet: this rank's side of the channel

  bool operator==(const LoopOp&) const = default;
};

// Ops that a rank runs `times` times over, and then the first `extra` of them, fewer than all, once more.
struct OpLoop {
  std::vector<LoopOp> ops;
  std::int64_t times = 1;
  std::size_t extra = 0;
};

struct LoopedProgram {
  // An action that takes time. In LowerLoops' program it stands for all of the rank with its kind and stage;
  // but a backward of microbatch 0 stands for the first of its stage alone.
  struct RankAction {
    std::int32_t rank = 0;
    std::int32_t index = 0;  // in the rank's list, of the first repetition
    Action action;           // without `after`
  };

  std::vector<std::vector<OpLoop>> ranks;
  std::vector<RankAction> actions;
  // A loop of the compute order that became a loop of the program.
  struct Repetition {
    std::int32_t rank = 0;
    std::size_t computes = 0;  // index in the rank's ComputeLoops
    std::size_t loop = 0;      // index in the rank's OpLoops
  };
  std::vector<Repetition> repetitions;  // of LowerLoops; by rank, then in order

  std::vector<std::int32_t> channels;  // by channel: how many sides meet
  std::int32_t sides = 0;              // of all channels
};

// Writes the ranks of a looped program, one after the other, in ascending order.
class LoopWriter {
 public:
  // An action of the rank that is written; a default one names none.
  struct Handle {
    std::int16_t lane = -1;   // -1: none, or one that is not waited for
    std::int64_t number = 0;  // in order of issue on its lane, from 1
  };

  // `plan`: its mesh has the groups that collectives run over. `one_by_one`: actions of a rank that have kind
  // and stage in common take times of their own; otherwise only the first backward of a stage does.
  explicit LoopWriter(const ParallelPlan& plan, bool one_by_one = false);

  void BeginRank();

  // Appends an action; `after` names messages and collectives that must be complete first.
  Handle Add(const LoweredAction& action, std::span<const Handle> after);
  Handle Add(const LoweredAction& action, std::initializer_list<Handle> after) {
    return Add(action, std::span(after.begin(), after.size()));
  }

  // Appends what part(0), part(1), ..., part(parts - 1), part(0), ... append: `count` parts in all. `users`
  // returns the handles (a container) that later actions may wait for. What a part appends must follow from
  // them and from its number. As soon as they are what they were one round ago, the rounds that are left
  // become a loop. Returns the index of that loop; nothing if there was none to make.
  template <class Part, class Users>
  std::optional<std::size_t> Repeat(std::int64_t parts, std::int64_t count, const Part& part,
                                    const Users& users) {
    struct Mark {
      State state;
      std::size_t ops = 0;
    };
    std::array<Mark, kMarks> marks;  // after the first parts of the last round
    for (std::int64_t i = 0; i < count; ++i) {
      part(i % parts);
      const std::int64_t left = count - 1 - i;
      const auto n = static_cast<std::size_t>(i % parts);
      if (n >= kMarks || left < parts) continue;
      Mark now{StateOf(users()), Straight().size()};
      unjoined_ = now.ops;
      if (i >= parts && marks[n].state == now.state) {
        MakeLoop(marks[n].ops, 1 + left / parts);
        for (std::int64_t after = 0; after < left % parts; ++after) part((i + 1 + after) % parts);
        JoinLoop();
        return program_.ranks.back().size() - 2;
      }
      marks[n] = std::move(now);
    }
    return std::nullopt;
  }

  // Slots of activations are used by computes alone, which nobody waits for here.
  Handle TakeSlot(const LoweredAction&) { return {}; }
  void FreeSlot(const LoweredAction&, Handle) {}

  void NoteRepetition(std::size_t computes, std::size_t loop) {
    program_.repetitions.push_back({rank(), computes, loop});
  }

  LoopedProgram Take() { return std::move(program_); }

 private:
  struct LaneCount {
    std::int64_t issued = 0;
    std::int64_t known = 0;  // up to there the rank has waited for them
  };
  // What the last rank that has an action of a kind and stage (a first backward apart from later ones), or a
  // side of a channel, has there.
  struct KnownOp {
    std::int32_t rank = -1, peer = -1;
    LoopOp op;
  };
  static constexpr std::size_t kMarks = 8;

  struct KnownSide {
    std::int32_t rank = -1, side = -1;
  };
  // Two numbers for each handle, one for each lane.
  using State = absl::InlinedVector<std::int64_t, 16>;

  std::vector<LoopOp>& Straight() { return program_.ranks.back().back().ops; }
  std::int32_t rank() const { return static_cast<std::int32_t>(program_.ranks.size()) - 1; }
  // Gives back what the straight ops have reserved beyond their size. A program of a thousand ranks has
  // megabytes of it.
  void ReleaseSlack();
  // Adds a wait to those of the op that comes next.
  void Wait(Handle handle);
  LoopOp MakeOp(const LoweredAction& action);
  template <class Handles>
  State StateOf(const Handles& handles) const {
    State state;
    for (const Handle& h : handles) {
      const LaneCount* lane = h.lane < 0 ? nullptr : &lanes_[static_cast<std::size_t>(h.lane)];
      const bool fresh = lane != nullptr && h.number > lane->known;
      state.push_back(fresh ? h.lane : -1);
      state.push_back(fresh ? lane->issued - h.number : 0);
    }
    for (const LaneCount& lane : lanes_) state.push_back(lane.issued > lane.known);
    return state;
  }
  // Makes a loop of the straight ops from `begin` on.
  void MakeLoop(std::size_t begin, std::int64_t times);
  // Counts the straight ops as the loop before them, if they are its first ones.
  void JoinLoop();

  RankMesh mesh_;
  bool one_by_one_;
  LoopedProgram program_;
  std::array<LaneCount, kLanes> lanes_;
  std::int32_t index_ = 0;                       // of the next action in the rank's list
  LoopOp waiting_{.what = LoopOp::What::kWait};  // its wait is that of the op that comes next
  std::size_t unjoined_ = 0;                     // straight ops before it stay as they are
  std::array<std::vector<KnownOp>, kActionKinds>
      known_;                     // by kind, then 2 (stage + 1), + 1 for first backwards
  std::vector<KnownSide> sides_;  // by channel
  // By what meets, the source or first of the group, and the target or -1.
  absl::flat_hash_map<std::tuple<int, std::int64_t, std::int64_t>, std::int32_t> channels_;
};

// Returns the program of the ranks of one pipeline. One rank stands for its tensor and data group, whose
// ranks do the same at the same times. Requires the shape of a plan that Lower accepts.
LoopedProgram LowerLoops(const PipelineShape& shape);

// All of a program, with every action on its own and nothing repeated. FailedPrecondition names an action
// that waits for one that is not before it, or whose peer is no rank.
absl::StatusOr<LoopedProgram> LoopsOf(const Program& program);

}  // namespace autocfg
