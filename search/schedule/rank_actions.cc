#include "search/schedule/rank_actions.h"

#include <string>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/schedule/program_checks.h"

namespace autocfg {

RankActions::RankActions(const Program& program, const RankMesh& mesh, std::int64_t rank)
    : list_(program.ranks[static_cast<std::size_t>(rank)]),
      plan_(program.plan),
      rank_(rank),
      microbatches_(program.microbatches),
      pipeline_rank_(mesh.Coordinate(rank, Axis::kPipeline)) {
  const std::vector<std::int64_t> pipeline = mesh.Group(rank, CommGroup::kPipeline);
  const auto peer = [&](std::int64_t steps) {
    return pipeline[static_cast<std::size_t>((pipeline_rank_ + steps) % plan_.pp)];
  };
  if (plan_.pp > 1) {
    next_ = peer(1);
    previous_ = peer(plan_.pp - 1);
  }
  const auto cells = static_cast<std::size_t>(plan_.virtual_stages * microbatches_);
  for (std::vector<std::int32_t>& found : found_) found.assign(cells, kMissing);
  single_.fill(kMissing);
}

absl::Status RankActions::Find() {
  for (std::size_t i = 0; i < list_.size(); ++i) {
    AUTOCFG_RETURN_IF_ERROR(CheckAction(static_cast<std::int32_t>(i)));
  }
  return CheckComplete();
}

bool RankActions::Owns(std::int64_t stage) const {
  return stage >= 0 && stage < StageCount(plan_) && PipelineRankOf(plan_, stage) == pipeline_rank_;
}

bool RankActions::StageHas(ActionKind kind, std::int64_t stage) const {
  switch (kind) {
    case ActionKind::kSendActivation:
    case ActionKind::kRecvGradient: return !IsLastStage(plan_, stage);
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient: return !IsFirstStage(stage);
    case ActionKind::kBackward: return !SplitsBackward(plan_);
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient: return SplitsBackward(plan_);
    case ActionKind::kForward:
    case ActionKind::kZeroScalars:
    case ActionKind::kSumNormGradients:
    case ActionKind::kReduceGradients:
    case ActionKind::kSumTiedEmbedding:
    case ActionKind::kReduceScalars:
    case ActionKind::kOptimizer:
    case ActionKind::kGatherParameters: return true;
  }
  return true;
}

bool RankActions::RankHas(ActionKind kind) const {
  switch (kind) {
    case ActionKind::kSumNormGradients: return SplitsLayers(plan_);
    case ActionKind::kReduceGradients: return BatchRanks(plan_) > 1 || SplitsLayers(plan_);
    case ActionKind::kGatherParameters: return GathersAfterUpdate(plan_);
    case ActionKind::kSumTiedEmbedding:
      return plan_.pp > 1 && (pipeline_rank_ == 0 || pipeline_rank_ == plan_.pp - 1);
    case ActionKind::kZeroScalars:
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient:
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient:
    case ActionKind::kReduceScalars:
    case ActionKind::kOptimizer: return true;
  }
  return true;
}

std::int64_t RankActions::PeerOf(ActionKind kind) const {
  switch (kind) {
    case ActionKind::kSendActivation:
    case ActionKind::kRecvGradient: return next_;
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient: return previous_;
    case ActionKind::kZeroScalars:
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient:
    case ActionKind::kSumNormGradients:
    case ActionKind::kReduceGradients:
    case ActionKind::kSumTiedEmbedding:
    case ActionKind::kReduceScalars:
    case ActionKind::kOptimizer:
    case ActionKind::kGatherParameters: return kMissing;
  }
  return kMissing;
}

std::size_t RankActions::Cell(std::int64_t stage, std::int64_t microbatch) const {
  return static_cast<std::size_t>(ChunkOf(plan_, stage) * microbatches_ + microbatch);
}

absl::Status RankActions::CheckAction(std::int32_t i) {
  const Action& action = list_[static_cast<std::size_t>(i)];
  if (Index(action.kind) >= kActionKinds)
    return WrongProgram(rank_, fmt::format("action {} is of no known kind", i));
  const std::string text = ToString(action);
  if (action.lane != LaneOf(action.kind))
    return WrongProgram(rank_, fmt::format("{} is on the wrong lane", text));
  if (action.peer != PeerOf(action.kind)) {
    return WrongProgram(rank_,
                        fmt::format("{} names peer {}, not {}", text, action.peer, PeerOf(action.kind)));
  }
  for (const std::int32_t after : action.after) {
    if (after < 0 || after >= i) {
      return WrongProgram(
          rank_, fmt::format("{} waits for action {}, which is not before it in the list", text, after));
    }
  }
  std::int32_t* place = &single_[Index(action.kind)];
  if (IsMicrobatch(action.kind)) {
    if (!Owns(action.stage)) {
      return WrongProgram(rank_,
                          fmt::format("{} is not of a stage of pipeline rank {}", text, pipeline_rank_));
    }
    if (!StageHas(action.kind, action.stage)) {
      return WrongProgram(rank_, fmt::format("{} does not belong on stage {}", text, action.stage));
    }
    if (action.microbatch < 0 || action.microbatch >= microbatches_) {
      return WrongProgram(rank_, fmt::format("{} names none of the {} microbatches", text, microbatches_));
    }
    place = &found_[Index(action.kind)][Cell(action.stage, action.microbatch)];
  } else if (action.stage != kMissing || action.microbatch != kMissing) {
    return WrongProgram(rank_, fmt::format("{} is of the whole rank, not of a stage or microbatch", text));
  } else if (!RankHas(action.kind)) {
    return WrongProgram(rank_, fmt::format("{} does not belong on pipeline rank {}", text, pipeline_rank_));
  }
  if (*place != kMissing) return WrongProgram(rank_, fmt::format("{} comes twice", text));
  *place = i;
  return absl::OkStatus();
}

absl::Status RankActions::CheckComplete() const {
  for (std::size_t k = 0; k < kActionKinds; ++k) {
    const ActionKind kind = static_cast<ActionKind>(k);
    Action missing{.kind = kind, .lane = LaneOf(kind), .peer = static_cast<std::int32_t>(PeerOf(kind))};
    if (!IsMicrobatch(kind)) {
      // Whether the embedding is tied, there are norms of heads, or ranks share key-value heads, is the
      // model's affair; all that is checked is that all sides agree.
      const bool is_of_model = kind == ActionKind::kSumTiedEmbedding ||
                               (kind == ActionKind::kSumNormGradients && !SplitsSequence(plan_)) ||
                               (kind == ActionKind::kReduceGradients && BatchRanks(plan_) == 1);
      if (!RankHas(kind) || is_of_model) continue;
      if (single_[k] == kMissing) return WrongProgram(rank_, fmt::format("{} is missing", ToString(missing)));
      continue;
    }
    for (std::int64_t chunk = 0; chunk < plan_.virtual_stages; ++chunk) {
      const std::int64_t stage = StageOf(plan_, pipeline_rank_, chunk);
      if (!StageHas(kind, stage)) continue;
      for (std::int64_t microbatch = 0; microbatch < microbatches_; ++microbatch) {
        if (At(kind, stage, microbatch) != kMissing) continue;
        missing.stage = static_cast<std::int32_t>(stage);
        missing.microbatch = static_cast<std::int32_t>(microbatch);
        return WrongProgram(rank_, fmt::format("{} is missing", ToString(missing)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg
