#include "search/cost/op_lists/action_ops.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "search/blocks/embedding.h"
#include "search/blocks/head.h"
#include "search/blocks/layer.h"
#include "search/blocks/messages.h"
#include "search/cost/memory/rank_units.h"
#include "search/cost/op_lists/unit_ops.h"
#include "search/plan/model_stages.h"
#include "search/plan/placement.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/compute_order.h"
#include "search/shapes/local_dims.h"

namespace autocfg {
namespace {

// Divides the ops of a stage into blocks, one for each unit that they use.
class StageBlocks {
 public:
  StageBlocks(const RunView& run, std::int64_t stage)
      : run_(run),
        stage_(stage),
        rank_(PipelineRankOf(run.plan, stage)),
        place_(PlaceOf(run.plan, rank_)),
        layers_(StageLayers(run.model, run.plan, stage)),
        units_(
            UnitsOf(LocalDimsOf(run), run.model, run.plan, place_, RankLayers(run.model, run.plan, rank_))) {
    for (std::int64_t i = 0; i < layers_.count; ++i) kinds_.push_back(LayerKindOf(run, layers_.first + i));
    if (units_.token_embedding > 0) table_ = count_++;
    if (units_.positions > 0) positions_ = count_++;
    first_layer_ = count_;
    for (std::int64_t earlier = stage - run.plan.pp; earlier >= 0; earlier -= run.plan.pp)
      first_layer_ += StageLayerCount(run.model, run.plan, earlier);
    count_ += units_.layers;
    if (units_.output_layer > 0) output_ = count_++;
  }

  std::vector<UnitBlock> Forward() const {
    std::vector<UnitBlock> blocks;
    if (IsFirstStage(stage_)) {
      blocks.push_back(Read(table_, EmbeddingForwardOps(run_)));
      if (positions_ > 0) blocks.push_back(Read(positions_, PositionForwardOps(run_)));
    } else {
      blocks.push_back({ArrivalOps(run_)});
    }
    const LayerOps layer = OfLayers([this](const LayerKind& kind) { return LayerForwardOps(run_, kind); });
    for (std::int64_t i = 0; i < Layers(); ++i) blocks.push_back(Read(LayerUnit(i), layer[i]));
    if (IsLastStage(run_.plan, stage_)) {
      blocks.push_back(Read(Head(), HeadForwardOps(run_)));
      if (KeepsTable()) blocks.back().gathered = 0;  // since the embedding
    }
    return blocks;
  }

  // Of a backward, or the first part of one that is split. `reduces`: it reduces the gradients that it
  // completes.
  std::vector<UnitBlock> Backward(bool accumulate, bool reduces) const {
    std::vector<UnitBlock> blocks;
    if (IsLastStage(run_.plan, stage_)) {
      blocks.push_back({HeadBackwardOps(run_, accumulate)});
      if (!KeepsGatheredHead(run_.plan) && !KeepsTable()) blocks.back() = Read(Head(), blocks.back().ops);
      if (reduces && !EmbeddingAddsToHead(run_.model, run_.plan)) Completes(Head(), blocks.back());
    } else {
      blocks.push_back({ArrivalOps(run_)});
    }
    const LayerOps recompute =
        OfLayers([this](const LayerKind& kind) { return LayerRecomputeOps(run_, kind); });
    const LayerOps layer = OfLayers(
        [this, accumulate](const LayerKind& kind) { return LayerBackwardOps(run_, accumulate, kind); });
    const LayerOps delaying = OfLayers([this, accumulate](const LayerKind& kind) {
      return LayerBackwardOps(run_, accumulate, kind, Gradients::kInputs);
    });
    const std::int64_t recomputing = LayersWithRecomputeOps(run_.plan, Layers());
    for (std::int64_t i = Layers() - 1; i >= 0; --i) {
      UnitBlock block = Read(LayerUnit(i), i < recomputing ? recompute[i] : std::vector<OpDesc>());
      const bool delays = i >= Layers() - Delayed();
      const std::vector<OpDesc>& own = (delays ? delaying : layer)[i];
      block.ops.insert(block.ops.end(), own.begin(), own.end());
      if (reduces && !delays) Completes(LayerUnit(i), block);
      blocks.push_back(std::move(block));
    }
    if (!IsFirstStage(stage_)) return blocks;
    if (positions_ > 0) {
      blocks.push_back({PositionBackwardOps(run_, accumulate)});
      if (reduces) Completes(positions_, blocks.back());
    }
    blocks.push_back({EmbeddingBackwardOps(run_, accumulate)});
    if (reduces) Completes(table_, blocks.back());
    return blocks;
  }

  std::vector<UnitBlock> WeightGradients(bool accumulate, bool reduces) const {
    std::vector<UnitBlock> blocks;
    const std::vector<OpDesc> layer = LayerBackwardOps(run_, accumulate, {}, Gradients::kWeights);
    for (std::int64_t i = Layers() - 1; i >= Layers() - Delayed(); --i) {
      blocks.push_back({layer});
      if (reduces) Completes(LayerUnit(i), blocks.back());
    }
    return blocks;
  }

  // Puts a block before the rank's last compute: the reductions of the units that other computes completed.
  void ReduceEarlier(std::vector<UnitBlock>& blocks) const {
    UnitBlock earlier;
    for (std::int64_t unit = 1; unit < count_; ++unit) {
      const bool later = std::any_of(blocks.begin(), blocks.end(), [unit](const UnitBlock& block) {
        return block.unit == unit && block.reduced > 0;
      });
      if (!later) earlier.ops.push_back(UnitReduceOp(run_.workload, run_.plan, Elements(unit)));
    }
    blocks.insert(blocks.begin(), std::move(earlier));
  }

 private:
  // Ops of the stage's layers, by their kinds.
  class LayerOps {
   public:
    template <typename List>
    LayerOps(const std::vector<LayerKind>& kinds, const List& list) : kinds_(kinds) {
      for (const LayerKind& kind : kinds) {
        if (!ops_.contains(kind)) ops_.emplace(kind, list(kind));
      }
    }
    const std::vector<OpDesc>& operator[](std::int64_t i) const {
      return ops_.at(kinds_[static_cast<std::size_t>(i)]);
    }

   private:
    const std::vector<LayerKind>& kinds_;
    std::map<LayerKind, std::vector<OpDesc>> ops_;
  };
  template <typename List>
  LayerOps OfLayers(const List& list) const {
    return {kinds_, list};
  }
  std::int64_t Layers() const { return layers_.count; }
  std::int64_t Delayed() const { return LayersWithDelayedGradients(run_.plan, Layers()); }
  std::int64_t Head() const { return run_.model.tied_embeddings ? table_ : output_; }
  // Whether a tied table stays gathered from the embedding on.
  bool KeepsTable() const {
    return EmbeddingAddsToHead(run_.model, run_.plan) && OverlapsParameters(run_.plan);
  }

  // The number of the unit of the stage's i-th layer, after those of the rank's earlier stages.
  std::int64_t LayerUnit(std::int64_t layer) const { return first_layer_ + layer; }

  std::int64_t Elements(std::int64_t unit) const {
    if (unit == table_) return units_.token_embedding;
    if (unit == positions_) return units_.positions;
    return unit == output_ ? units_.output_layer : units_.layer;
  }

  UnitBlock Of(std::int64_t unit, std::vector<OpDesc> ops) const {
    return {.ops = std::move(ops), .unit = unit, .has_buffer = unit == table_ && run_.model.tied_embeddings};
  }
  UnitBlock Read(std::int64_t unit, std::vector<OpDesc> ops) const {
    UnitBlock block = Of(unit, std::move(ops));
    if (ShardsParameters(run_.plan)) block.gathered = Elements(unit);
    return block;
  }
  void Completes(std::int64_t unit, UnitBlock& block) const {
    const std::int64_t gathered = block.gathered;
    block = Of(unit, std::move(block.ops));
    block.gathered = gathered;
    block.reduced = Elements(unit);
  }

  const RunView run_;
  const std::int64_t stage_, rank_;
  const RankPlace place_;
  const LayerRange layers_;
  const RankUnits units_;
  std::vector<LayerKind> kinds_;  // of the stage's layers
  // Numbers of units; 0, that of the norms: the rank has no such unit.
  std::int64_t table_ = 0, positions_ = 0, first_layer_ = 0, output_ = 0;
  std::int64_t count_ = 1;
};

}  // namespace

std::vector<OpDesc> ActionOps(const RunView& run, std::int64_t pipeline_rank, const Action& action) {
  const auto blocks = [&] {
    if (action.stage < 0 || action.stage >= StageCount(run.plan) ||
        PipelineRankOf(run.plan, action.stage) != pipeline_rank) {
      throw std::logic_error(
          fmt::format("{} is not an action of pipeline rank {}", ToString(action), pipeline_rank));
    }
    return StageBlocks(run, action.stage);
  };
  const bool accumulate = !WritesGradients(action.kind, action.microbatch);
  const bool last = OverlapsGradients(run.plan) && !ShardsGradients(run.plan) &&
                    IsLastCompute(run.plan, MicrobatchCount(run.workload, run.plan), action);
  const bool reduces = ShardsGradients(run.plan) || last;
  switch (action.kind) {
    case ActionKind::kForward: return WithUnitOps(run.workload, run.plan, blocks().Forward(), accumulate);
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient: {
      const StageBlocks stage = blocks();
      std::vector<UnitBlock> list = action.kind == ActionKind::kWeightGradient
                                        ? stage.WeightGradients(accumulate, reduces)
                                        : stage.Backward(accumulate, reduces);
      if (last) stage.ReduceEarlier(list);
      return WithUnitOps(run.workload, run.plan, list, accumulate);
    }
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient: return MessageOps(run, OpKind::kSend);
    case ActionKind::kRecvActivation:
    case ActionKind::kRecvGradient: return MessageOps(run, OpKind::kRecv);
    case ActionKind::kZeroScalars:
    case ActionKind::kSumNormGradients:
    case ActionKind::kReduceGradients:
    case ActionKind::kSumTiedEmbedding:
    case ActionKind::kReduceScalars:
    case ActionKind::kOptimizer:
    case ActionKind::kGatherParameters: break;
  }
  std::vector<OpDesc> ops;
  for (const RepeatedOp& repeated : RankOps(run, pipeline_rank, action.kind))
    ops.insert(ops.end(), static_cast<std::size_t>(repeated.times), repeated.op);
  return ops;
}

std::vector<RepeatedOp> UnitOpsOfComputes(const RunView& run, std::int64_t pipeline_rank) {
  std::vector<RepeatedOp> ops;
  if (!ShardsGradients(run.plan) && !OverlapsGradients(run.plan)) return ops;
  const std::int64_t microbatches = ShardsGradients(run.plan) ? MicrobatchCount(run.workload, run.plan) : 1;
  const RankUnits units = UnitsOf(LocalDimsOf(run), run.model, run.plan, PlaceOf(run.plan, pipeline_rank),
                                  RankLayers(run.model, run.plan, pipeline_rank));
  const auto add = [&](std::int64_t elements, std::int64_t count, std::int64_t passes) {
    if (elements == 0) return;
    ops.push_back({UnitReduceOp(run.workload, run.plan, elements), count * microbatches});
    if (ShardsParameters(run.plan))
      ops.push_back({UnitGatherOp(run.workload, run.plan, elements), passes * count * microbatches});
    if (ShardsGradients(run.plan) && microbatches > 1)
      ops.push_back({UnitAddOp(run.workload, run.plan, elements), count * (microbatches - 1)});
  };
  add(units.token_embedding, 1, 1);
  add(units.positions, 1, 1);
  add(units.layer, units.layers, 2);  // forward and backward
  add(units.output_layer, 1, 1);
  return ops;
}

}  // namespace autocfg
