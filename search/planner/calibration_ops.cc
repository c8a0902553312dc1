#include "search/planner/calibration_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "search/blocks/embedding.h"
#include "search/blocks/head.h"
#include "search/blocks/layer.h"
#include "search/blocks/messages.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_lists/rank_ops.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/plan/model_stages.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {
namespace {

// Measuring an op takes some time however short it is.
constexpr double kLeastNominalSeconds = 1e-6;

using OpWeights = absl::flat_hash_map<OpDesc, double, OpDescHash>;

void Add(OpWeights& weights, const std::vector<OpDesc>& ops, double times) {
  for (const OpDesc& op : ops) weights[op] += times * NominalTimes().Seconds(op);
}

// Returns the ops of one step of a plan, each with its total nominal time.
OpWeights StepOps(const RunView& run) {
  OpWeights weights;
  const auto m = static_cast<double>(MicrobatchCount(run.workload, run.plan));
  // The layers of each kind, and those of them that recompute, and that delay gradients.
  struct Counts {
    double layers = 0, recomputing = 0, delaying = 0;
  };
  std::map<LayerKind, Counts> kinds;
  for (std::int64_t stage = 0; stage < StageCount(run.plan); ++stage) {
    const LayerRange layers = StageLayers(run.model, run.plan, stage);
    const std::int64_t recomputing = LayersWithRecomputeOps(run.plan, layers.count);
    const std::int64_t delaying = LayersWithDelayedGradients(run.plan, layers.count);
    for (std::int64_t i = 0; i < layers.count; ++i) {
      Counts& counts = kinds[LayerKindOf(run, layers.first + i)];
      ++counts.layers;
      if (i < recomputing) ++counts.recomputing;
      if (i >= layers.count - delaying) ++counts.delaying;
    }
  }
  double all_delaying = 0;
  for (const auto& [kind, counts] : kinds) {
    all_delaying += counts.delaying;
    Add(weights, LayerForwardOps(run, kind), counts.layers * m);
    if (counts.recomputing > 0) Add(weights, LayerRecomputeOps(run, kind), counts.recomputing * m);
  }
  Add(weights, EmbeddingForwardOps(run), m);
  Add(weights, PositionForwardOps(run), m);
  Add(weights, HeadForwardOps(run), m);
  Add(weights, ArrivalOps(run), 2 * static_cast<double>(StageCount(run.plan) - 1) * m);
  for (const bool accumulate : {false, true}) {
    const double times = accumulate ? m - 1 : 1;
    if (times == 0) continue;
    for (const auto& [kind, counts] : kinds) {
      const double split = counts.delaying * times, whole = counts.layers * times - split;
      if (whole > 0) Add(weights, LayerBackwardOps(run, accumulate, kind), whole);
      if (split > 0) Add(weights, LayerBackwardOps(run, accumulate, kind, Gradients::kInputs), split);
    }
    if (all_delaying > 0)
      Add(weights, LayerBackwardOps(run, accumulate, {}, Gradients::kWeights), all_delaying * times);
    Add(weights, PositionBackwardOps(run, accumulate), times);
    Add(weights, EmbeddingBackwardOps(run, accumulate), times);
    Add(weights, HeadBackwardOps(run, accumulate), times);
  }
  // All chunks of a rank form one region. Takes the first rank, the last one, and one middle rank of each
  // size.
  std::set<std::int64_t> between;
  for (std::int64_t rank = 0; rank < run.plan.pp; ++rank) {
    const bool edge = rank == 0 || rank + 1 == run.plan.pp;
    if (!edge && run.plan.split != SplitMode::kExplicit && !between.empty()) continue;
    if (!edge && !between.insert(RankLayers(run.model, run.plan, rank)).second) continue;
    ForEachRankKind([&](ActionKind kind) {
      for (const RepeatedOp& repeated : RankOps(run, rank, kind))
        Add(weights, {repeated.op}, static_cast<double>(repeated.times));
    });
    for (const RepeatedOp& repeated : UnitOpsOfComputes(run, rank))
      Add(weights, {repeated.op}, static_cast<double>(repeated.times));
  }
  if (run.plan.pp > 1) {
    for (const ActionKind kind : {ActionKind::kSendActivation, ActionKind::kRecvActivation}) {
      Add(weights, ActionOps(run, 0, Action{.kind = kind}),
          2 * static_cast<double>(run.plan.virtual_stages) * m);
    }
  }
  return weights;
}

}  // namespace

std::vector<OpDesc> ListCalibrationOps(const ModelSpec& model, const Workload& workload,
                                       const std::vector<ParallelPlan>& plans, std::size_t most) {
  std::map<OpDesc, double> share;  // over all plans; ordered, so that sums do not depend on hashing
  for (const ParallelPlan& plan : plans) {
    const OpWeights step = StepOps({model, workload, plan});
    std::vector<std::pair<OpDesc, double>> sorted(step.begin(), step.end());
    std::sort(sorted.begin(), sorted.end());
    double total = 0;
    for (const auto& [op, seconds] : sorted) total += seconds;
    for (const auto& [op, seconds] : sorted) share[op] += seconds / total;
  }

  std::vector<std::pair<double, OpDesc>> order;
  order.reserve(share.size());
  for (const auto& [op, weight] : share) order.emplace_back(-weight, op);
  std::sort(order.begin(), order.end());
  if (order.size() > most) {
    // Keeps the first two of each family regardless of position, then fills the list with the others.
    std::map<std::tuple<OpKind, Epilogue, CommGroup, std::int32_t>, int> family;
    std::vector<std::pair<double, OpDesc>> kept, others;
    for (const auto& entry : order) {
      const OpDesc& op = entry.second;
      (family[{op.kind, op.epilogue, op.group, op.group_size}]++ < 2 ? kept : others).push_back(entry);
    }
    const std::size_t room = most > kept.size() ? most - kept.size() : 0;
    kept.insert(kept.end(), others.begin(),
                others.begin() + static_cast<std::ptrdiff_t>(std::min(room, others.size())));
    kept.resize(std::min(kept.size(), most));
    std::sort(kept.begin(), kept.end());
    order = std::move(kept);
  }
  for (auto& [weight, op] : order) weight /= std::max(NominalTimes().Seconds(op), kLeastNominalSeconds);
  std::sort(order.begin(), order.end());
  std::vector<OpDesc> ops;
  ops.reserve(order.size());
  for (const auto& entry : order) ops.push_back(entry.second);
  return ops;
}

}  // namespace autocfg
