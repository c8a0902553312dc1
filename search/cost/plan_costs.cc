#include "search/cost/plan_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "search/blocks/embedding.h"
#include "search/blocks/head.h"
#include "search/blocks/layer.h"
#include "search/blocks/messages.h"
#include "search/cost/engine_costs.h"
#include "search/cost/memory/rank_units.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_lists/rank_ops.h"
#include "search/cost/op_lists/unit_ops.h"
#include "search/cost/rank_unit_costs.h"
#include "search/cost/unit_overlap.h"
#include "search/plan/model_stages.h"
#include "search/plan/placement.h"
#include "search/schedule/action_kinds.h"
#include "search/shapes/local_dims.h"

namespace autocfg {
namespace {

// Costs that are kept of plans, and of what plans share that differ in messages and states alone: some 3 MB
// and 6 MB. Plans are gone through by layout, so older ones are rarely needed.
constexpr std::size_t kMostCommons = 3'000, kMostBlocks = 6'000;

std::size_t PlaceIndex(RankPlace place) { return (place.first ? 1 : 0) + (place.last ? 2 : 0); }

}  // namespace

PlanCosts::PlanCosts(Problem problem, std::shared_ptr<const OpTimeModel> times)
    : problem_(std::move(problem)),
      engine_(TimedEngine(problem_.cluster)),
      times_(std::move(times)),
      kinds_(std::make_shared<const KindsOfLayers>(problem_.model, problem_.workload.seq_len)) {
  if (!problem_.cluster.calibration) return;
  layers_ = ShapeCorrections(problem_.cluster.calibration->layers);
  output_layers_ = ShapeCorrections(problem_.cluster.calibration->output_layers);
}

PlanCosts::Corrections PlanCosts::CorrectionsOf(const ParallelPlan& plan) const {
  const BlockShape shape{.hidden = problem_.model.hidden,
                         .seq_len = problem_.workload.seq_len,
                         .micro_batch = plan.micro_batch,
                         .tp = plan.tp};
  return {layers_.At(shape), output_layers_.At(shape)};
}

OpSum PlanCosts::SumOf(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const {
  // Chunks of a product are one op many times.
  struct Known {
    const OpDesc* op = nullptr;
    double seconds = 0;
  };
  std::array<Known, 4> recent;
  std::size_t next = 0;
  return SumOps(plan, ops, [&](const OpDesc& op) {
    for (const Known& known : recent) {
      if (known.op != nullptr && *known.op == op) return known.seconds;
    }
    const double seconds = times_->Seconds(op, plan);
    recent[next++ % recent.size()] = {&op, seconds};
    return seconds;
  });
}

std::size_t PlanCosts::KeyHash::operator()(const CommonKey& key) const {
  return absl::HashOf(key.mesh, key.layer.micro_batch, key.layer.recompute, key.layer.recompute_parts,
                      key.layer.sequence_parallel, key.layer.tp_overlap, key.scatter_gather,
                      key.states.zero_stage);
}

std::size_t PlanCosts::KeyHash::operator()(const BlocksKey& key) const {
  return absl::HashOf(key.layer_ranks, key.layer.micro_batch, key.layer.recompute, key.layer.recompute_parts,
                      key.layer.sequence_parallel, key.layer.tp_overlap, key.shards_gradients,
                      key.splits_backward);
}

std::size_t PlanCosts::KeyHash::operator()(const UnitsKey& key) const {
  return absl::HashOf(key.mesh, key.states.zero_stage);
}

std::size_t PlanCosts::KeyHash::operator()(const OnceKey& key) const {
  return absl::HashOf(key.mesh, key.layers, key.place);
}

PlanCosts::BlocksKey PlanCosts::BlocksKeyOf(const ParallelPlan& plan) const {
  return {RanksThatSplit<Splits::kLayer>(plan),      RankCount(plan),     plan.layer(), ShardsGradients(plan),
          EmbeddingAddsToHead(problem_.model, plan), SplitsBackward(plan)};
}

template <typename List>
PlanCosts::BackwardOps PlanCosts::SumOfBackward(const ParallelPlan& plan, const List& list) const {
  return {SumOf(plan, list(/*accumulate=*/true)), SumOf(plan, list(/*accumulate=*/false)).compute_s};
}

double PlanCosts::SecondsOfOps(const ParallelPlan& plan, std::int64_t pipeline_rank, ActionKind kind) const {
  double seconds = 0;
  if (IsMicrobatch(kind)) {
    for (const OpDesc& op : ActionOps(problem_.With(plan), pipeline_rank, Action{.kind = kind}))
      seconds += times_->Seconds(op, plan);
    return seconds;
  }
  for (const RepeatedOp& repeated : RankOps(problem_.With(plan), pipeline_rank, kind))
    seconds += static_cast<double>(repeated.times) * times_->Seconds(repeated.op, plan);
  return seconds;
}

// Adds sums of ops to the costs of blocks under one plan.
class PlanCosts::OpSums {
 public:
  // Refers to both.
  OpSums(const PlanCosts& costs, const ParallelPlan& plan)
      : hides_(HidesCollectives(costs.problem_.cluster)),
        contention_(OverlapContention(costs.problem_.cluster)),
        // Chunks are reduced by one op many times. A copy: sums of ops come and go.
        message_seconds_(
            [&costs, &plan, last = std::optional<OpDesc>(), last_s = 0.0](const OpDesc& op) mutable {
              if (!last || *last != op) {
                last_s = costs.times_->Seconds(op, plan);
                last = op;
              }
              return last_s;
            }) {}

  double MessageSeconds(const OpDesc& op) const { return message_seconds_(op); }

  void AddForward(const OpSum& sum, StageCosts& part) const {
    Add(sum, part.forward_s, part.tp_forward_s, part.hidden_forward_s, part.forward_ops);
  }
  void AddBackward(const BackwardOps& backward, StageCosts& part) const {
    Add(backward.ops, part.backward_s, part.tp_backward_s, part.hidden_backward_s, part.backward_ops);
    part.first_saves_s = backward.ops.compute_s - backward.first_s;
  }
  void AddWeights(const BackwardOps& weights, StageCosts& part) const {
    Add(weights.ops, part.weight_s, part.tp_weight_s, part.hidden_backward_s, part.weight_ops);
    part.weight_first_saves_s = weights.ops.compute_s - weights.first_s;
  }
  void AddRecompute(const OpSum& sum, StageCosts& part) const {
    Add(sum, part.recompute_s, part.tp_recompute_s, part.hidden_backward_s, part.backward_ops);
    part.backward_s = part.recompute_s;
  }

 private:
  void Add(const OpSum& sum, double& all_s, double& messages_s, double& hidden_s, double& ops) const {
    double messages = 0;
    for (const OpDesc& op : sum.messages) messages += message_seconds_(op);
    for (const ChunkedProduct& chunked : sum.chunked) {
      double total_s = 0;
      for (const OpDesc& op : chunked.reductions) total_s += message_seconds_(op);
      const OverlapTime time =
          hides_ ? TimeOfChunks(chunked, message_seconds_, contention_) : OverlapTime{total_s, total_s};
      messages += time.seconds;
      hidden_s += std::max(0.0, total_s - time.waited_s);
    }
    messages_s += messages;
    all_s += sum.compute_s + messages;
    ops += sum.ops;
  }

  const bool hides_;
  const double contention_;
  const SecondsOfOp message_seconds_;
};

const PlanCosts::BlocksWithoutRecompute& PlanCosts::BlocksWithoutRecomputeOf(const ParallelPlan& plan) {
  BlocksKey key = BlocksKeyOf(plan);
  key.layer.recompute = Recompute::kNone;
  key.layer.recompute_parts = LayerOptions().recompute_parts;
  const auto [it, made] = without_recompute_.try_emplace(key);
  BlocksWithoutRecompute& known = it->second;
  if (!made) return known;
  auto& [blocks, whole_backwards] = known;
  const RunView run = problem_.With(plan);
  const OpSums sums(*this, plan);
  const auto backward_of = [&](const LayerKind& kind, Gradients gradients) {
    return SumOfBackward(plan,
                         [&](bool accumulate) { return LayerBackwardOps(run, accumulate, kind, gradients); });
  };
  // Adds the forward, and a backward of which the engine may hide gathers.
  const auto add_layer = [&](const StageCosts& forward, BackwardOps backward, StageCosts& layer) {
    layer.forward_s = forward.forward_s;
    layer.tp_forward_s = forward.tp_forward_s;
    layer.hidden_forward_s = forward.hidden_forward_s;
    layer.forward_ops = forward.forward_ops;
    double hidden_s = 0;
    if (engine_.hides_backward_gathers) {
      std::erase_if(backward.ops.messages, [&](const OpDesc& op) {
        if (op.kind != OpKind::kAllGather) return false;
        hidden_s += sums.MessageSeconds(op);
        return true;
      });
    }
    sums.AddBackward(backward, layer);
    layer.backward_s += OverlapContention(problem_.cluster) * hidden_s;
    layer.tp_backward_s += OverlapContention(problem_.cluster) * hidden_s;
    layer.hidden_backward_s += hidden_s;
  };
  if (SplitsBackward(plan)) {
    // Only the backwards of layers are others than where they are whole.
    ParallelPlan whole = plan;
    whole.schedule = Schedule::kOneFOneB;
    known = BlocksWithoutRecomputeOf(whole);
    for (std::size_t kind = 0; kind < blocks.layers.size(); ++kind) {
      const StageCosts forward = std::exchange(blocks.layers[kind].layer, {});
      add_layer(forward, backward_of(kinds_->kinds()[kind], Gradients::kInputs), blocks.layers[kind].layer);
    }
    sums.AddWeights(backward_of({}, Gradients::kWeights), blocks.weights);
    return known;
  }
  if (!kinds_->AreAlike()) blocks.kinds = kinds_;
  for (const LayerKind& kind : kinds_->kinds()) {
    StageCosts forward;
    sums.AddForward(SumOf(plan, LayerForwardOps(run, kind)), forward);
    const BackwardOps backward = backward_of(kind, Gradients::kAll);
    sums.AddBackward(backward, whole_backwards.emplace_back());
    add_layer(forward, backward, blocks.layers.emplace_back().layer);
  }
  const auto add = [&](const OpSum& forward, const BackwardOps& backward, StageCosts& part) {
    sums.AddForward(forward, part);
    sums.AddBackward(backward, part);
  };
  add(SumOf(plan, EmbeddingForwardOps(run)),
      SumOfBackward(plan, [&](bool accumulate) { return EmbeddingBackwardOps(run, accumulate); }),
      blocks.embedding);
  add(SumOf(plan, PositionForwardOps(run)),
      SumOfBackward(plan, [&](bool accumulate) { return PositionBackwardOps(run, accumulate); }),
      blocks.positions);
  const auto of_head = [&](const std::vector<OpDesc>& ops) {
    return SumOps(plan, ops, [&](const OpDesc& op) { return times_->OutputLayer().Seconds(op, plan); });
  };
  add(of_head(HeadForwardOps(run)),
      {of_head(HeadBackwardOps(run, true)), of_head(HeadBackwardOps(run, false)).compute_s}, blocks.head);
  return known;
}

BlockCosts PlanCosts::MakeBlocks(const ParallelPlan& plan) {
  const auto& [without_recompute, whole_backwards] = BlocksWithoutRecomputeOf(plan);
  BlockCosts blocks = without_recompute;
  if (plan.recompute == Recompute::kNone) return blocks;
  const OpSums sums(*this, plan);
  for (std::size_t kind = 0; kind < blocks.layers.size(); ++kind) {
    auto& [layer, recompute] = blocks.layers[kind];
    sums.AddRecompute(SumOf(plan, LayerRecomputeOps(problem_.With(plan), kinds_->kinds()[kind],
                                                    /*whole_mlp=*/engine_.recomputes_whole_layers)),
                      recompute);
    // Layers that recompute what weight gradients read delay none.
    if (!SplitsBackward(plan) || (plan.recompute != Recompute::kFull && !RecomputesInputs(plan))) continue;
    const StageCosts& whole = whole_backwards[kind];
    recompute.backward_s += whole.backward_s - layer.backward_s;
    recompute.first_saves_s += whole.first_saves_s - layer.first_saves_s;
    recompute.tp_backward_s += whole.tp_backward_s - layer.tp_backward_s;
    recompute.hidden_backward_s += whole.hidden_backward_s - layer.hidden_backward_s;
    recompute.backward_ops += whole.backward_ops - layer.backward_ops;
  }
  return blocks;
}

const BlockCosts& PlanCosts::BlocksOf(const ParallelPlan& plan) {
  const BlocksKey key = BlocksKeyOf(plan);
  if (const auto it = blocks_.find(key); it != blocks_.end()) return it->second;
  BlockCosts blocks = MakeBlocks(plan);
  if (engine_ != EngineProfile()) AddEngineCosts(engine_, plan, SecondsOfPass(plan), blocks);
  if (problem_.cluster.calibration) {
    const Corrections corrections = CorrectionsOf(plan);
    const double layer = std::exp(corrections.layer.mean);
    for (auto& [of_layer, recompute] : blocks.layers) {
      Scale(of_layer, layer);
      Scale(recompute, layer);
    }
    Scale(blocks.weights, layer);
    Scale(blocks.head, std::exp(corrections.output_layer.mean));
  }
  if (blocks_.size() >= kMostBlocks) blocks_.clear();
  return blocks_.emplace(key, std::move(blocks)).first->second;
}

const PlanCosts::Common& PlanCosts::CommonOf(const ParallelPlan& plan) {
  CommonKey key{plan.mesh(),          plan.layer(),          plan.scatter_gather,
                StatesOfStages(plan), ShardsGradients(plan), SplitsBackward(plan)};
  if (const auto it = commons_.find(key); it != commons_.end()) return it->second;
  if (commons_.size() >= kMostCommons) commons_.clear();
  CommonKey without_units = key;
  without_units.states = {};
  const auto [it, made] = commons_.try_emplace(without_units);
  if (made) {
    it->second.blocks = BlocksOf(plan);
    it->second.blocks.units.hidden = HidesCollectives(problem_.cluster);
    it->second.blocks.units.contention = OverlapContention(problem_.cluster);
    AddMessages(plan, it->second);
  }
  if (key == without_units) return it->second;
  Common& common = commons_.emplace(key, it->second).first->second;
  common.blocks.units = UnitCostsOf(plan);
  return common;
}

void PlanCosts::AddMessages(const ParallelPlan& plan, Common& p) const {
  const OpSum arrival = SumOf(plan, ArrivalOps(problem_.With(plan)));
  double messages_s = 0;
  for (const OpDesc& op : arrival.messages) messages_s += times_->Seconds(op, plan);
  p.blocks.arrival = {.forward_s = arrival.compute_s + messages_s,
                      .backward_s = arrival.compute_s + messages_s,
                      .tp_forward_s = messages_s,
                      .tp_backward_s = messages_s,
                      .forward_ops = arrival.ops,
                      .backward_ops = arrival.ops};
  if (SplitsDepth(plan)) {
    p.p2p_s = std::max(SecondsOfOps(plan, 0, ActionKind::kSendActivation),
                       SecondsOfOps(plan, 0, ActionKind::kRecvActivation));
  }
  if (RankCount(plan) > 1) p.scalars_s = times_->Seconds(ScalarReduceOp(plan), plan);
  p.scalars_s += engine_.step_s;
}

double PlanCosts::SecondsOfPass(const ParallelPlan& plan) const {
  const LocalDims dims = LocalDimsOf(problem_.With(plan));
  // An addition reads two tensors and writes one; the difference of two has no launch.
  const auto seconds = [&](std::int64_t rows) {
    return times_->Seconds({.kind = OpKind::kResidualAdd,
                            .dtype = problem_.workload.precision.compute,
                            .dims = {rows, dims.hidden}},
                           plan);
  };
  return (seconds(2 * dims.rows) - seconds(dims.rows)) / 3;
}

const UnitCosts& PlanCosts::UnitCostsOf(const ParallelPlan& plan) {
  const auto [it, made] = units_.try_emplace({plan.mesh(), StatesOfStages(plan)});
  UnitCosts& costs = it->second;
  if (!made) return costs;
  costs.hidden = HidesCollectives(problem_.cluster);
  costs.contention = OverlapContention(problem_.cluster);
  const RankUnits units = UnitsOf(LocalDimsOf(problem_.With(plan)), problem_.model, plan,
                                  {.first = true, .last = true}, problem_.model.layers);
  const auto times = [&](OpDesc (*op)(const Workload&, const ParallelPlan&, std::int64_t)) {
    const auto seconds = [&](std::int64_t elements) {
      return elements == 0 ? 0 : times_->Seconds(op(problem_.workload, plan, elements), plan);
    };
    return UnitTimes{.token_embedding = seconds(units.token_embedding),
                     .positions = seconds(units.positions),
                     .layer = seconds(units.layer),
                     .output_layer = seconds(units.output_layer)};
  };
  if (ShardsStates(plan)) costs.gather = times(UnitGatherOp);
  costs.reduce = times(UnitReduceOp);
  if (ShardsGradients(plan)) costs.add = times(UnitAddOp);
  return costs;
}

const PlanCosts::OnceCosts& PlanCosts::OnceCostsOf(const ParallelPlan& plan, std::int64_t pipeline_rank) {
  const std::int64_t layers = RankLayers(problem_.model, plan, pipeline_rank);
  const std::size_t place = PlaceIndex(PlaceOf(plan, pipeline_rank));
  const OnceKey key{plan.mesh(), plan.states(), SplitsSequence(plan), layers, place};
  const auto [it, made] = once_costs_.try_emplace(key);
  OnceCosts& costs = it->second;
  if (!made) return costs;
  RankCosts& rank = costs.rank;
  for (const RepeatedOp& op : RankOps(problem_.With(plan), pipeline_rank, ActionKind::kZeroScalars)) {
    const double seconds = static_cast<double>(op.times) * times_->Seconds(op.op, plan);
    if (!IsCommunication(op.op.kind)) {
      rank.zero_s += seconds;
      continue;
    }
    if (costs.gather_all_s == 0) costs.gather_norms_s = seconds;  // the first unit
    costs.gather_all_s += seconds;
  }
  rank.norm_gradients_s = SecondsOfOps(plan, pipeline_rank, ActionKind::kSumNormGradients);
  rank.reduce_s = SecondsOfOps(plan, pipeline_rank, ActionKind::kReduceGradients);
  rank.tied_s = SecondsOfOps(plan, pipeline_rank, ActionKind::kSumTiedEmbedding);
  rank.gather_s = SecondsOfOps(plan, pipeline_rank, ActionKind::kGatherParameters);
  rank.norm_s = times_->Seconds(GradientNormOp(problem_.With(plan), pipeline_rank), plan);
  rank.update_s = SecondsOfOps(plan, pipeline_rank, ActionKind::kOptimizer);
  return costs;
}

RankCosts PlanCosts::CostsOfRank(const ParallelPlan& plan, const BlockCosts& blocks,
                                 std::int64_t pipeline_rank) {
  const OnceCosts& once = OnceCostsOf(plan, pipeline_rank);
  RankCosts costs = once.rank;
  const RankUnitCosts units(problem_.With(plan), pipeline_rank, blocks);
  const bool hides = blocks.units.hidden;
  if (OverlapsGradients(plan) && !ShardsGradients(plan)) {
    const double all_s = units.AllReductions();
    const OverlapTime after = hides ? units.ReductionsAfterCompute() : OverlapTime{all_s, all_s};
    costs.hidden_s += std::max(0.0, all_s - after.waited_s);
    // The sum of the gradients of norms runs meanwhile.
    costs.reduce_s += hides ? std::max(0.0, after.seconds - costs.norm_gradients_s) : all_s;
  }
  if (OverlapsParameters(plan)) {
    const double all_s = once.gather_all_s;
    const OverlapTime gathers =
        hides ? units.WaitForParameters(once.gather_norms_s) : OverlapTime{all_s, all_s};
    // The zeroing runs meanwhile, where anything does.
    const double meanwhile_s = hides ? costs.zero_s : 0;
    costs.wait_s = std::max(0.0, gathers.seconds - meanwhile_s);
    costs.hidden_s += std::max(0.0, all_s - std::max(0.0, gathers.waited_s - meanwhile_s));
  }
  return costs;
}

const PipelineCosts& PlanCosts::PipelineOf(const ParallelPlan& plan, double host_op_s) {
  const Common& common = CommonOf(plan);
  pipeline_.p2p_s = common.p2p_s;
  pipeline_.overlaps_messages = OverlapsMessages(plan);
  pipeline_.scalars_s = common.scalars_s;
  pipeline_.stages.clear();
  pipeline_.ranks.clear();
  const std::int64_t stages = StageCount(plan);
  const bool alike = kinds_->AreAlike();
  LayerRange before;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const LayerRange layers{before.first + before.count, StageLayerCount(problem_.model, plan, stage)};
    const bool last = IsLastStage(plan, stage);
    if (alike && stage >= 2 && !last && layers.count == before.count) {
      pipeline_.stages.push_back(pipeline_.stages.back());
    } else {
      pipeline_.stages.push_back(
          CostsOfStage(common.blocks, plan, layers, IsFirstStage(stage), last, host_op_s));
    }
    before = layers;
  }
  const std::int64_t ranks = RanksThatSplit<Splits::kDepth>(plan);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (alike && rank >= 2 && rank + 1 < ranks && HasLayersOfRankBefore(plan, rank)) {
      pipeline_.ranks.push_back(pipeline_.ranks.back());
    } else {
      pipeline_.ranks.push_back(CostsOfRank(plan, common.blocks, rank));
    }
  }
  return pipeline_;
}

double PlanCosts::RanksPerCore() const {
  double most = 1;
  for (const NodeGroup& group : problem_.cluster.groups) most = std::max(most, group.ranks_per_core);
  return most;
}

}  // namespace autocfg
