#include "search/cost/cost_model.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "search/cost/closed_form.h"
#include "search/cost/layer_ops.h"
#include "search/cost/pipeline_simulator.h"
#include "search/cost/stage_shapes.h"
#include "search/plan/legality.h"
#include "search/text/size_text.h"

namespace autocfg {
namespace {

struct OpSum {
  double all_s = 0;
  double tp_s = 0;  // communication over the tensor group
};

OpSum Sum(const OpTimeModel& times, const ParallelPlan& plan, const std::vector<OpDesc>& ops) {
  OpSum sum;
  for (const OpDesc& op : ops) {
    const double seconds = times.Seconds(op, plan);
    sum.all_s += seconds;
    if (op.group == CommGroup::kTensor) sum.tp_s += seconds;
  }
  return sum;
}

std::string WhyItDoesNotFit(const MemoryBytes& memory, std::int64_t capacity) {
  struct Region {
    std::string_view words;
    std::int64_t bytes;
  };
  const std::array<Region, 7> regions = {{{"parameters are", memory.parameters},
                                          {"gradients are", memory.gradients},
                                          {"optimizer states are", memory.optimizer},
                                          {"activations are", memory.activations},
                                          {"workspace is", memory.workspace},
                                          {"communication buffers are", memory.communication},
                                          {"device overhead is", memory.device_overhead}}};
  const Region& largest = *std::max_element(
      regions.begin(), regions.end(), [](const Region& a, const Region& b) { return a.bytes < b.bytes; });
  const std::int64_t over = memory.Total() - capacity;
  return fmt::format(
      "needs {} ({} bytes) more than the {} ({} bytes) a rank has; {} the largest region ({}, {} bytes)",
      BytesText(over), over, BytesText(capacity), capacity, largest.words, BytesText(largest.bytes),
      largest.bytes);
}

}  // namespace

CostModel::CostModel(ModelSpec model, Workload workload, ClusterSpec cluster, OpTimes times,
                     std::int64_t device_overhead_bytes)
    : CostModel(std::move(model), std::move(workload), std::move(cluster),
                std::make_shared<const OpTimes>(std::move(times)), device_overhead_bytes) {}

CostModel::CostModel(ModelSpec model, Workload workload, ClusterSpec cluster,
                     std::shared_ptr<const OpTimeModel> times, std::int64_t device_overhead_bytes)
    : model_(std::move(model)),
      workload_(std::move(workload)),
      cluster_(std::move(cluster)),
      times_(std::move(times)),
      device_overhead_bytes_(device_overhead_bytes),
      capacity_bytes_(MemoryCapacity(cluster_)) {}

Prediction CostModel::PredictMemory(const ParallelPlan& plan) const {
  Prediction prediction;
  prediction.memory = WorstRankMemory(model_, workload_, plan);
  prediction.memory.device_overhead = device_overhead_bytes_;
  prediction.capacity_bytes = capacity_bytes_;
  prediction.feasible = prediction.memory.Total() <= capacity_bytes_;
  if (!prediction.feasible) prediction.reason = WhyItDoesNotFit(prediction.memory, capacity_bytes_);
  return prediction;
}

Prediction CostModel::Predict(const ParallelPlan& plan) {
  Prediction prediction = PredictMemory(plan);
  GatherStages(plan);
  prediction.breakdown = ClosedForm(stages_, plan.schedule, MicrobatchCount(workload_, plan), RanksPerCore());
  prediction.step_time_s = prediction.breakdown.Total();
  prediction.step_time_low_s = prediction.step_time_high_s = prediction.step_time_s;
  return prediction;
}

Prediction CostModel::Simulate(const ParallelPlan& plan) {
  Prediction prediction = Predict(plan);  // leaves the plan's costs in stages_
  const double shared = RanksPerCore();
  const std::int64_t microbatches = MicrobatchCount(workload_, plan);

  // Ranks that differ only in tensor and data coordinate do the same at the same time: one of the first and
  // two of the second show all.
  ParallelPlan small = plan;
  small.tp = 1;
  small.dp = std::min<std::int64_t>(plan.dp, 2);
  Workload batch = workload_;
  batch.global_batch = microbatches * plan.micro_batch * small.dp;
  const Program program = Lower(model_, batch, small);
  const auto stage_of = [&](std::int32_t rank) { return static_cast<std::size_t>(rank / small.dp); };
  const absl::StatusOr<SimulatedStep> step =
      SimulateProgram(program, [&](std::int32_t rank, const Action& action) -> double {
        const StageCosts& c = stages_[stage_of(rank)];
        switch (action.kind) {
          case ActionKind::kZeroGradients:
            return c.zero_s;
          case ActionKind::kForward:
            return UnloadedForward(c, shared);
          case ActionKind::kBackward:
            return UnloadedBackward(c, shared);
          case ActionKind::kSendActivation:
          case ActionKind::kRecvActivation:
          case ActionKind::kSendGradient:
          case ActionKind::kRecvGradient:
            return c.p2p_s;
          case ActionKind::kReduceGradients:
            return c.reduce_s;
          case ActionKind::kSumTiedEmbedding:
            return c.tied_s;
          case ActionKind::kReduceScalars:
            return c.norm_s + c.scalars_s;
          case ActionKind::kOptimizer:
            return c.UpdateSeconds();
        }
        throw std::logic_error("an action of no known kind");
      });
  // The program is our own and valid by construction; a stuck one is a bug that must not pass as a time.
  if (!step.ok()) throw std::logic_error(std::string(step.status().message()));

  double total = step->step_time_s;
  if (shared > 1) {
    double pipeline_end = 0;
    for (const TraceRow& row : step->rows) {
      const Action& action =
          program.ranks[static_cast<std::size_t>(row.rank)][static_cast<std::size_t>(row.action)];
      if (action.kind == ActionKind::kBackward) pipeline_end = std::max(pipeline_end, row.end_s);
    }
    total += std::max(0.0, SharedCoreSeconds(stages_, microbatches) - pipeline_end);
  }

  // The closed form's attribution; what the two differ by is bubble, unless that runs out.
  Breakdown& parts = prediction.breakdown;
  const double busy = parts.Total() - parts.bubble;
  parts.bubble = std::max(0.0, total - busy);
  if (busy > total) {
    for (double* part : {&parts.compute, &parts.recompute, &parts.tp_comm, &parts.pp_comm, &parts.dp_comm,
                         &parts.optimizer, &parts.overhead}) {
      *part *= total / busy;
    }
  }
  prediction.step_time_s = prediction.step_time_low_s = prediction.step_time_high_s = total;
  return prediction;
}

const StageCosts& CostModel::CostsOf(const ParallelPlan& plan, std::int64_t pipeline_rank) {
  const std::int64_t flags = (pipeline_rank == 0 ? 1 : 0) + (pipeline_rank == plan.pp - 1 ? 2 : 0);
  const std::array<std::int64_t, 8> key = {plan.tp,
                                           plan.dp,
                                           StageLayers(model_, plan, pipeline_rank).count,
                                           flags,
                                           plan.micro_batch,
                                           static_cast<std::int64_t>(plan.recompute),
                                           plan.pp,
                                           0};
  if (const auto it = stage_costs_.find(key); it != stage_costs_.end()) return it->second;
  return stage_costs_.emplace(key, MakeCosts(plan, pipeline_rank)).first->second;
}

const CostModel::LayerCosts& CostModel::LayerCostsOf(const ParallelPlan& plan) {
  const std::array<std::int64_t, 3> key = {plan.tp, plan.micro_batch,
                                           static_cast<std::int64_t>(plan.recompute)};
  if (const auto it = layer_costs_.find(key); it != layer_costs_.end()) return it->second;
  LayerCosts layer;
  const OpSum forward = Sum(*times_, plan, LayerForwardOps(model_, workload_, plan));
  const OpSum recompute = Sum(*times_, plan, LayerRecomputeOps(model_, workload_, plan));
  const OpSum backward = Sum(*times_, plan, LayerBackwardOps(model_, workload_, plan));
  layer.costs.forward_s = forward.all_s;
  layer.costs.tp_forward_s = forward.tp_s;
  layer.costs.backward_s = backward.all_s + recompute.all_s;
  layer.costs.tp_backward_s = backward.tp_s;
  layer.costs.recompute_s = recompute.all_s;
  layer.costs.tp_recompute_s = recompute.tp_s;
  for (const ParameterShape& p : LayerParameters(ShapesOf(model_, workload_, plan))) {
    OpDesc op{
        .kind = OpKind::kSumOfSquares, .dtype = workload_.precision.gradients, .dims = {p.elements, 0, 0, 0}};
    layer.norm_s += times_->Seconds(op, plan);
    op.kind = OpKind::kAdamW;
    op.dtype = workload_.precision.parameters;
    layer.update_s += times_->Seconds(op, plan);
  }
  return layer_costs_.emplace(key, layer).first->second;
}

StageCosts CostModel::MakeCosts(const ParallelPlan& plan, std::int64_t pipeline_rank) {
  const bool first = pipeline_rank == 0, last = pipeline_rank == plan.pp - 1;
  const std::int64_t layer_count = StageLayers(model_, plan, pipeline_rank).count;
  const auto layers = static_cast<double>(layer_count);
  const LayerCosts& layer = LayerCostsOf(plan);
  const auto action_seconds = [&](ActionKind kind) {
    return Sum(*times_, plan, ActionOps(model_, workload_, plan, pipeline_rank, Action{.kind = kind, .after = {}}))
        .all_s;
  };

  StageCosts c;
  c.forward_s = layers * layer.costs.forward_s;
  c.tp_forward_s = layers * layer.costs.tp_forward_s;
  c.backward_s = layers * layer.costs.backward_s;
  c.tp_backward_s = layers * layer.costs.tp_backward_s;
  c.recompute_s = layers * layer.costs.recompute_s;
  c.tp_recompute_s = layers * layer.costs.tp_recompute_s;
  const auto add = [&](const std::vector<OpDesc>& ops, double& all, double& tp) {
    const OpSum sum = Sum(*times_, plan, ops);
    all += sum.all_s;
    tp += sum.tp_s;
  };
  if (first) {
    add(EmbeddingForwardOps(model_, workload_, plan), c.forward_s, c.tp_forward_s);
    add(EmbeddingBackwardOps(model_, workload_, plan), c.backward_s, c.tp_backward_s);
  }
  if (last) {
    add(HeadForwardOps(model_, workload_, plan), c.forward_s, c.tp_forward_s);
    add(HeadBackwardOps(model_, workload_, plan), c.backward_s, c.tp_backward_s);
  }

  // The layers' parameters from the cache, the others as ParameterOps lists them.
  const StepShapes s = ShapesOf(model_, workload_, plan);
  double norm = layers * layer.norm_s, update = layers * layer.update_s;
  const auto parameter = [&](std::int64_t elements, bool in_norm) {
    OpDesc op{.kind = OpKind::kAdamW, .dtype = workload_.precision.parameters, .dims = {elements, 0, 0, 0}};
    update += times_->Seconds(op, plan);
    op.kind = OpKind::kSumOfSquares;
    op.dtype = workload_.precision.gradients;
    if (in_norm) norm += times_->Seconds(op, plan);
  };
  if (first || last) parameter(s.vocab * s.hidden, first);
  if (first) parameter(model_.max_seq_len * s.hidden, true);
  if (last) parameter(s.hidden, true), parameter(s.hidden, true);

  c.zero_s = action_seconds(ActionKind::kZeroGradients);
  c.norm_s = norm;
  c.optimizer_s = c.zero_s + norm + update;
  if (RankCount(plan) > 1) {
    c.scalars_s = times_->Seconds({.kind = OpKind::kAllReduceSum,
                                   .dtype = DType::kF64,
                                   .group = CommGroup::kWorld,
                                   .group_size = static_cast<std::int32_t>(RankCount(plan)),
                                   .dims = {2}},
                                  plan);
  }
  c.reduce_s = action_seconds(ActionKind::kReduceGradients);
  c.tied_s = action_seconds(ActionKind::kSumTiedEmbedding);
  if (plan.pp > 1) {
    c.p2p_s =
        std::max(action_seconds(ActionKind::kSendActivation), action_seconds(ActionKind::kRecvActivation));
  }
  return c;
}

void CostModel::GatherStages(const ParallelPlan& plan) {
  stages_.clear();
  stages_.reserve(static_cast<std::size_t>(plan.pp));
  for (std::int64_t s = 0; s < plan.pp; ++s) {
    // Stages of an even split between the first and the last are equal.
    if (plan.split == SplitMode::kEven && s >= 2 && s + 1 < plan.pp) {
      stages_.push_back(stages_.back());
    } else {
      stages_.push_back(CostsOf(plan, s));
    }
  }
}

double CostModel::RanksPerCore() const {
  double most = 1;
  for (const NodeGroup& group : cluster_.groups) most = std::max(most, group.ranks_per_core);
  return most;
}

}  // namespace autocfg
