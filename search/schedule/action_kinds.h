// What the kind of an action determines: lane, group, whether it sends or receives. Pure.
#pragma once

#include <cstddef>

#include "search/plan/rank_mesh.h"
#include "search/schedule/action.h"

namespace autocfg {

inline constexpr std::size_t kActionKinds = static_cast<std::size_t>(ActionKind::kGatherParameters) + 1;
inline constexpr std::size_t kLanes = static_cast<std::size_t>(Lane::kReduce) + 1;

constexpr std::size_t Index(ActionKind kind) { return static_cast<std::size_t>(kind); }
constexpr std::size_t Index(Lane lane) { return static_cast<std::size_t>(lane); }

constexpr bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
}
constexpr bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvActivation || kind == ActionKind::kRecvGradient;
}
// Returns true for an action that computes with a microbatch on a stage.
constexpr bool IsStageCompute(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kInputGradient || kind == ActionKind::kWeightGradient;
}
// Returns true for an action of a stage and a microbatch, false for one of the whole rank.
constexpr bool IsMicrobatch(ActionKind kind) { return IsStageCompute(kind) || IsSend(kind) || IsRecv(kind); }

// Returns true for the action of a microbatch that turns the gradient of the stage's output into that of its
// input: whole backwards, and the first part of split ones.
constexpr bool MakesInputGradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGradient;
}
// Returns true for the first action of a microbatch on its stage, which takes an activation slot.
constexpr bool TakesSlot(ActionKind kind, std::int64_t stage) {
  return kind == (stage == 0 ? ActionKind::kForward : ActionKind::kRecvActivation);
}
// Returns true for the last action of a microbatch on its stage, which frees the activation slot.
constexpr bool FreesSlot(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kWeightGradient;
}

// Calls visit(kind) for each kind of actions of the whole rank.
template <typename Visit>
constexpr void ForEachRankKind(const Visit& visit) {
  for (std::size_t i = 0; i < kActionKinds; ++i) {
    if (const auto kind = static_cast<ActionKind>(i); !IsMicrobatch(kind)) visit(kind);
  }
}

// Returns true for the first backward of a stage, or either part of it. It writes gradients of the stage's
// parameters; later ones add to them.
constexpr bool WritesGradients(ActionKind kind, std::int32_t microbatch) {
  return (MakesInputGradient(kind) || FreesSlot(kind)) && microbatch == 0;
}

// Returns the receive kind that matches `send`.
constexpr ActionKind ReceiveOf(ActionKind send) {
  return send == ActionKind::kSendActivation ? ActionKind::kRecvActivation : ActionKind::kRecvGradient;
}

// Returns the lane that actions of this kind run on.
constexpr Lane LaneOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kZeroScalars:
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient:
    case ActionKind::kOptimizer: return Lane::kCompute;
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient: return Lane::kPipelineSend;
    case ActionKind::kRecvActivation:
    case ActionKind::kRecvGradient: return Lane::kPipelineRecv;
    case ActionKind::kSumNormGradients:
    case ActionKind::kReduceGradients:
    case ActionKind::kSumTiedEmbedding:
    case ActionKind::kReduceScalars:
    case ActionKind::kGatherParameters: break;
  }
  return Lane::kReduce;
}

// Returns the group of ranks that run a collective (an action of Lane::kReduce) together; kNone for others.
constexpr CommGroup GroupOf(ActionKind collective) {
  switch (collective) {
    case ActionKind::kSumNormGradients: return CommGroup::kTensor;
    case ActionKind::kReduceGradients:
    case ActionKind::kGatherParameters: return CommGroup::kData;
    case ActionKind::kSumTiedEmbedding: return CommGroup::kEmbedding;
    case ActionKind::kReduceScalars: return CommGroup::kWorld;
    case ActionKind::kZeroScalars:
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient:
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient:
    case ActionKind::kOptimizer: break;
  }
  return CommGroup::kNone;
}

}  // namespace autocfg
