// What follows from the kind of an action alone. Pure.
#pragma once

#include <cstddef>

#include "search/plan/rank_mesh.h"
#include "search/schedule/action.h"

namespace autocfg {

inline constexpr std::size_t kActionKinds = static_cast<std::size_t>(ActionKind::kOptimizer) + 1;
inline constexpr std::size_t kLanes = static_cast<std::size_t>(Lane::kReduce) + 1;

constexpr std::size_t Index(ActionKind kind) { return static_cast<std::size_t>(kind); }
constexpr std::size_t Index(Lane lane) { return static_cast<std::size_t>(lane); }

constexpr bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
}
constexpr bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvActivation || kind == ActionKind::kRecvGradient;
}
// Whether it is of a stage and a microbatch, not of the whole rank.
constexpr bool IsMicrobatch(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward || IsSend(kind) || IsRecv(kind);
}

// Of a send: what meets it.
constexpr ActionKind ReceiveOf(ActionKind send) {
  return send == ActionKind::kSendActivation ? ActionKind::kRecvActivation : ActionKind::kRecvGradient;
}

constexpr Lane LaneOf(ActionKind kind) {
  if (IsSend(kind)) return Lane::kPipelineSend;
  if (IsRecv(kind)) return Lane::kPipelineRecv;
  const bool computes = kind == ActionKind::kForward || kind == ActionKind::kBackward ||
                        kind == ActionKind::kZeroGradients || kind == ActionKind::kOptimizer;
  return computes ? Lane::kCompute : Lane::kReduce;
}

// The ranks that take part in it.
constexpr CommGroup GroupOf(ActionKind collective) {
  switch (collective) {
    case ActionKind::kReduceGradients: return CommGroup::kData;
    case ActionKind::kSumTiedEmbedding: return CommGroup::kEmbedding;
    default: return CommGroup::kWorld;
  }
}

}  // namespace autocfg
