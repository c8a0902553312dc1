// Where each action stands in the list of one rank, and the proof that every action there is stands in it
// once, on its lane, with the right peer. Refers to the program. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/program.h"

namespace autocfg {

inline constexpr std::int32_t kMissing = -1;

class RankActions {
 public:
  RankActions(const Program& program, const RankMesh& mesh, std::int64_t rank);

  // Fills it; to be called once, first. FailedPrecondition names the action that is wrong, there twice or not
  // there.
  absl::Status Find();

  const RankProgram& list() const { return list_; }
  const ParallelPlan& plan() const { return plan_; }
  std::int64_t rank() const { return rank_; }
  std::int64_t pipeline_rank() const { return pipeline_rank_; }
  std::int64_t microbatches() const { return microbatches_; }

  // The index in the list, or kMissing. The first form: of a stage of this rank.
  std::int32_t At(ActionKind kind, std::int64_t stage, std::int64_t microbatch) const {
    return found_[Index(kind)][Cell(stage, microbatch)];
  }
  std::int32_t At(ActionKind kind) const { return single_[Index(kind)]; }

 private:
  bool Owns(std::int64_t stage) const;
  // Whether the stage has actions of that kind, one for each microbatch.
  bool StageHas(ActionKind kind, std::int64_t stage) const;
  // Whether the rank has an action of that kind, which is not tied to a microbatch.
  bool RankHas(ActionKind kind) const;
  std::int64_t PeerOf(ActionKind kind) const;
  std::size_t Cell(std::int64_t stage, std::int64_t microbatch) const;
  absl::Status CheckAction(std::int32_t i);
  absl::Status CheckComplete() const;

  const RankProgram& list_;
  const ParallelPlan& plan_;
  std::int64_t rank_, microbatches_, pipeline_rank_;
  // ranks, around the ring; none where there is no other
  std::int64_t previous_ = kMissing, next_ = kMissing;
  // by kind, then chunk and microbatch: the index in the list
  std::array<std::vector<std::int32_t>, kActionKinds> found_;
  std::array<std::int32_t, kActionKinds> single_;  // by kind, for those of the whole rank
};

}  // namespace autocfg
