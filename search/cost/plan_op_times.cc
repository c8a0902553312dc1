#include "search/cost/plan_op_times.h"

#include <set>
#include <utility>

#include "search/blocks/layer.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_lists/rank_ops.h"
#include "search/plan/model_stages.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {

namespace {

// Those whose ranks issue different ops: the first and another one of the tensor group, and the next that is
// the first of those that share key-value heads, each with every part of the states.
std::vector<StateCoordinates> StateCoordinatesOf(const RunView& run) {
  std::vector<StateCoordinates> all;
  const std::set<std::int64_t> tensors = {0, 1, KvReplicas(run.model, run.plan)};
  for (const std::int64_t tensor : tensors) {
    if (tensor >= RanksThatSplit<Splits::kLayer>(run.plan)) continue;
    for (std::int64_t data = 0; data < StateShards(run.plan); ++data) all.push_back({tensor, data});
  }
  return all;
}

// The kinds of a stage's layers, each with whether such layers recompute.
using StageKinds = std::set<std::pair<LayerKind, bool>>;

StageKinds KindsOfStage(const RunView& run, std::int64_t stage) {
  const LayerRange layers = StageLayers(run.model, run.plan, stage);
  const std::int64_t recomputing = LayersWithRecomputeOps(run.plan, layers.count);
  StageKinds kinds;
  for (std::int64_t i = 0; i < layers.count; ++i)
    kinds.emplace(LayerKindOf(run, layers.first + i), i < recomputing);
  return kinds;
}

}  // namespace

std::vector<OpDesc> PlanOps(const RunView& run) {
  std::set<OpDesc> ops;
  const auto add = [&](const std::vector<OpDesc>& more) { ops.insert(more.begin(), more.end()); };
  // Middle stages issue the same ops, only in different numbers. So do ranks with the same place and number
  // of layers.
  std::set<StageKinds> middle_stages;
  std::set<std::pair<int, std::int64_t>> ranks;
  for (std::int64_t rank = 0; rank < run.plan.pp; ++rank) {
    for (std::int64_t chunk = 0; chunk < run.plan.virtual_stages; ++chunk) {
      const std::int64_t stage = StageOf(run.plan, rank, chunk);
      const bool edge = IsFirstStage(stage) || IsLastStage(run.plan, stage);
      if (!edge && !middle_stages.insert(KindsOfStage(run, stage)).second) continue;
      const auto add_compute = [&](ActionKind kind, std::int32_t microbatch) {
        add(ActionOps(
            run, rank,
            Action{.kind = kind, .stage = static_cast<std::int32_t>(stage), .microbatch = microbatch}));
      };
      add_compute(ActionKind::kForward, 0);
      for (const std::int32_t microbatch : {0, 1}) {  // the first one writes gradients
        if (microbatch == MicrobatchCount(run.workload, run.plan)) continue;
        if (!SplitsBackward(run.plan)) {
          add_compute(ActionKind::kBackward, microbatch);
          continue;
        }
        add_compute(ActionKind::kInputGradient, microbatch);
        add_compute(ActionKind::kWeightGradient, microbatch);
      }
    }
    const RankPlace place = PlaceOf(run.plan, rank);
    if (!ranks.emplace(place.first * 2 + place.last, RankLayers(run.model, run.plan, rank)).second) continue;
    // The rank's last compute may reduce gradients.
    add(ActionOps(
        run, rank,
        Action{.kind = SplitsBackward(run.plan) ? ActionKind::kWeightGradient : ActionKind::kBackward,
               .stage = static_cast<std::int32_t>(StageOf(run.plan, rank, 0)),
               .microbatch = static_cast<std::int32_t>(MicrobatchCount(run.workload, run.plan) - 1)}));
    for (const StateCoordinates& coordinates : StateCoordinatesOf(run)) {
      ForEachRankKind([&](ActionKind kind) {
        for (const RepeatedOp& repeated : RankOps(run, rank, kind, coordinates)) ops.insert(repeated.op);
      });
    }
  }
  if (run.plan.pp > 1) {
    for (const ActionKind kind : {ActionKind::kSendActivation, ActionKind::kRecvActivation}) {
      add(ActionOps(run, 0, Action{.kind = kind}));
    }
  }
  return {ops.begin(), ops.end()};
}

std::vector<OpTime> PlanOpTimes(const RunView& run, const OpTimeModel& times) {
  std::vector<OpTime> result;
  for (const OpDesc& op : PlanOps(run)) result.push_back({op, times.Seconds(op, run.plan)});
  return result;
}

}  // namespace autocfg
