#include "search/cost/cost_model.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/cost/closed_form.h"
#include "search/cost/layer_ops.h"
#include "search/cost/step_parts.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {
namespace {

std::size_t PlaceIndex(RankPlace place) { return (place.first ? 1 : 0) + (place.last ? 2 : 0); }

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
      base::BytesText(over), over, base::BytesText(capacity), capacity, largest.words,
      base::BytesText(largest.bytes), largest.bytes);
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
      host_op_s_(times_->HostOpSeconds()),
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

TimedStep CostModel::TimeStepOf(const ParallelPlan& plan, const PipelineCosts& costs) {
  const ProgramTimer& timer = timers_.Find(plan, MicrobatchCount(workload_, plan), model_.tied_embeddings);
  return TimeStep(timer, costs, RanksPerCore());
}

Breakdown CostModel::PartsOfStep(const ParallelPlan& plan, const PipelineCosts& costs) {
  const double shared = RanksPerCore();
  const std::int64_t microbatches = MicrobatchCount(workload_, plan);
  if (PipelineBoundIsClose(costs)) {
    return StepParts(costs, microbatches, shared, PipelineBound(costs, plan.schedule, microbatches, shared));
  }
  return StepParts(costs, microbatches, shared, TimeStepOf(plan, costs).worked_s);
}

Prediction CostModel::Predict(const ParallelPlan& plan) {
  Prediction prediction = PredictMemory(plan);
  prediction.breakdown = PartsOfStep(plan, CostsOf(plan));
  prediction.step_time_s = prediction.breakdown.Total();
  prediction.step_time_low_s = prediction.step_time_high_s = prediction.step_time_s;
  return prediction;
}

double CostModel::PredictedSeconds(const ParallelPlan& plan, double host_op_s) {
  return PartsOfStep(plan, CostsOf(plan, host_op_s)).Total();
}

Prediction CostModel::Simulate(const ParallelPlan& plan) {
  Prediction prediction = Predict(plan);  // leaves the plan's costs in costs_
  // Without a pipeline a rank does one thing after the other, and the closed form is their sum.
  if (plan.pp == 1) return prediction;
  const double shared = RanksPerCore();
  const TimedStep timed = TimeStepOf(plan, costs_);
  double total = timed.step_time_s;
  if (shared > 1) {  // the pipeline begins when the gradients are zero
    const double pipeline_end_s = *std::max_element(timed.worked_s.begin(), timed.worked_s.end());
    const double at_least_s = SharedCoreSeconds(costs_, MicrobatchCount(workload_, plan));
    total += std::max(0.0, costs_.ranks.front().zero_s + at_least_s - pipeline_end_s);
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

TracedStep CostModel::Trace(const ParallelPlan& plan) {
  const PipelineCosts& costs = CostsOf(plan);
  const RankMesh mesh(plan);
  absl::StatusOr<TracedStep> step =
      TraceProgram(Lower(model_, workload_, plan), [&](std::int32_t rank, const Action& action) {
        return SecondsOf(costs, RanksPerCore(), mesh.Coordinate(rank, Axis::kPipeline), action);
      });
  // The program is our own and valid by construction; a stuck one is a bug that must not pass as a time.
  if (!step.ok()) throw std::logic_error(std::string(step.status().message()));
  return *std::move(step);
}

StageCosts CostsOfStage(const PartCosts& parts, std::int64_t layers, std::int64_t recomputing, bool first,
                        bool last, double host_op_s) {
  StageCosts c;
  const auto add = [&c](const StageCosts& part, double times) {
    c.forward_s += times * part.forward_s;
    c.backward_s += times * part.backward_s;
    c.recompute_s += times * part.recompute_s;
    c.tp_forward_s += times * part.tp_forward_s;
    c.tp_backward_s += times * part.tp_backward_s;
    c.tp_recompute_s += times * part.tp_recompute_s;
    c.forward_ops += times * part.forward_ops;
    c.backward_ops += times * part.backward_ops;
  };
  add(parts.layer, static_cast<double>(layers));
  if (recomputing > 0) add(parts.recompute, static_cast<double>(recomputing));
  if (first) add(parts.embedding, 1);
  if (last) add(parts.head, 1);
  c.forward_s = std::max(c.forward_s, c.forward_ops * host_op_s);
  c.backward_s = std::max(c.backward_s, c.backward_ops * host_op_s);
  return c;
}

CostModel::OpSum CostModel::SumOf(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const {
  OpSum sum;
  sum.ops = static_cast<double>(ops.size());
  for (const OpDesc& op : ops) {
    if (op.group == CommGroup::kNone) {
      sum.compute_s += times_->Seconds(op, plan);
    } else {
      sum.messages.push_back(op);
    }
  }
  return sum;
}

std::size_t CostModel::KeyHash::operator()(const ComputeKey& key) const {
  return absl::HashOf(key.tp, key.layer.micro_batch, key.layer.recompute);
}

std::size_t CostModel::KeyHash::operator()(const PlanPartsKey& key) const {
  return absl::HashOf(key.mesh.tp, key.mesh.pp, key.mesh.dp, key.layer.micro_batch, key.layer.recompute,
                      key.messages.scatter_gather);
}

std::size_t CostModel::KeyHash::operator()(const RegionKey& key) const {
  return absl::HashOf(key.mesh.tp, key.mesh.pp, key.mesh.dp, key.layers, key.place);
}

const CostModel::ComputeParts& CostModel::ComputePartsOf(const ParallelPlan& plan) {
  const ComputeKey key{plan.tp, plan.layer()};
  if (const auto it = compute_parts_.find(key); it != compute_parts_.end()) return it->second;
  ComputeParts c;
  c.layer_forward = SumOf(plan, LayerForwardOps(model_, workload_, plan));
  c.layer_recompute = SumOf(plan, LayerRecomputeOps(model_, workload_, plan));
  c.layer_backward = SumOf(plan, LayerBackwardOps(model_, workload_, plan));
  c.embedding_forward = SumOf(plan, EmbeddingForwardOps(model_, workload_, plan));
  c.embedding_backward = SumOf(plan, EmbeddingBackwardOps(model_, workload_, plan));
  c.head_forward = SumOf(plan, HeadForwardOps(model_, workload_, plan));
  c.head_backward = SumOf(plan, HeadBackwardOps(model_, workload_, plan));
  return compute_parts_.emplace(key, std::move(c)).first->second;
}

double CostModel::ActionSeconds(const ParallelPlan& plan, std::int64_t pipeline_rank, ActionKind kind) const {
  double seconds = 0;
  for (const OpDesc& op : ActionOps(model_, workload_, plan, pipeline_rank, Action{.kind = kind}))
    seconds += times_->Seconds(op, plan);
  return seconds;
}

const CostModel::PlanParts& CostModel::PlanPartsOf(const ParallelPlan& plan) {
  const PlanPartsKey key{plan.mesh(), plan.layer(), plan.messages()};
  if (const auto it = plan_parts_.find(key); it != plan_parts_.end()) return it->second;
  const ComputeParts& compute = ComputePartsOf(plan);
  const auto add = [&](const OpSum& sum, double& all_s, double& messages_s, double& ops) {
    for (const OpDesc& op : sum.messages) messages_s += times_->Seconds(op, plan);
    all_s += sum.compute_s + messages_s;
    ops += sum.ops;
  };
  const auto add_forward = [&](const OpSum& sum, StageCosts& part) {
    add(sum, part.forward_s, part.tp_forward_s, part.forward_ops);
  };
  const auto add_backward = [&](const OpSum& sum, StageCosts& part) {
    add(sum, part.backward_s, part.tp_backward_s, part.backward_ops);
  };
  PlanParts p;
  PartCosts& parts = p.parts;
  add_forward(compute.layer_forward, parts.layer);
  add_backward(compute.layer_backward, parts.layer);
  add(compute.layer_recompute, parts.recompute.recompute_s, parts.recompute.tp_recompute_s,
      parts.recompute.backward_ops);
  parts.recompute.backward_s = parts.recompute.recompute_s;
  add_forward(compute.embedding_forward, parts.embedding);
  add_backward(compute.embedding_backward, parts.embedding);
  add_forward(compute.head_forward, parts.head);
  add_backward(compute.head_backward, parts.head);
  if (plan.pp > 1) {
    p.p2p_s = std::max(ActionSeconds(plan, 0, ActionKind::kSendActivation),
                       ActionSeconds(plan, 0, ActionKind::kRecvActivation));
    p.tied_s = ActionSeconds(plan, 0, ActionKind::kSumTiedEmbedding);
  }
  if (RankCount(plan) > 1) {
    const OpDesc scalars{.kind = OpKind::kAllReduceSum,
                         .dtype = DType::kF64,
                         .group = CommGroup::kWorld,
                         .group_size = static_cast<std::int32_t>(RankCount(plan)),
                         .dims = {2}};
    p.scalars_s = times_->Seconds(scalars, plan);
  }
  return plan_parts_.emplace(key, p).first->second;
}

RankCosts CostModel::CostsOfRank(const ParallelPlan& plan, std::int64_t pipeline_rank) {
  const std::int64_t layers = RankLayers(model_, plan, pipeline_rank);
  const std::size_t place = PlaceIndex(PlaceOf(plan, pipeline_rank));
  const RegionKey key{plan.mesh(), plan.states(), layers, place};
  const auto [it, made] = region_costs_.try_emplace(key);
  RankCosts& costs = it->second;
  if (made) {
    costs.zero_s = ActionSeconds(plan, pipeline_rank, ActionKind::kZeroGradients);
    costs.reduce_s = ActionSeconds(plan, pipeline_rank, ActionKind::kReduceGradients);
    costs.norm_s =
        times_->Seconds(ParameterOp(model_, workload_, plan, pipeline_rank, OpKind::kSumOfSquares), plan);
    costs.update_s = ActionSeconds(plan, pipeline_rank, ActionKind::kOptimizer);
  }
  return costs;
}

const PartCosts& CostModel::PartsOf(const ParallelPlan& plan) { return PlanPartsOf(plan).parts; }

const PipelineCosts& CostModel::CostsOf(const ParallelPlan& plan, double host_op_s) {
  const PlanParts& parts = PlanPartsOf(plan);
  costs_.p2p_s = parts.p2p_s;
  costs_.tied_s = parts.tied_s;
  costs_.scalars_s = parts.scalars_s;
  costs_.stages.clear();
  costs_.ranks.clear();
  const std::int64_t stages = StageCount(plan);
  const bool explicit_split = plan.split == SplitMode::kExplicit;
  std::int64_t layers_before = -1;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t layers = StageLayerCount(model_, plan, stage);
    const bool last = IsLastStage(plan, stage);
    if (stage >= 2 && !last && layers == layers_before) {
      costs_.stages.push_back(costs_.stages.back());
    } else {
      costs_.stages.push_back(CostsOfStage(parts.parts, layers, RecomputingLayers(plan, layers),
                                           IsFirstStage(stage), last, host_op_s));
    }
    layers_before = layers;
  }
  for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
    // Ranks of an even split between the first and the last are equal.
    if (!explicit_split && rank >= 2 && rank + 1 < plan.pp) {
      costs_.ranks.push_back(costs_.ranks.back());
    } else {
      costs_.ranks.push_back(CostsOfRank(plan, rank));
    }
  }
  return costs_;
}

double CostModel::RanksPerCore() const {
  double most = 1;
  for (const NodeGroup& group : cluster_.groups) most = std::max(most, group.ranks_per_core);
  return most;
}

}  // namespace autocfg
