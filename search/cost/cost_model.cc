#include "search/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/cost/action_ops.h"
#include "search/cost/engine_costs.h"
#include "search/cost/layer_ops.h"
#include "search/cost/memory/rank_units.h"
#include "search/cost/rank_ops.h"
#include "search/cost/rank_unit_costs.h"
#include "search/cost/timing/breakdown.h"
#include "search/cost/timing/closed_form.h"
#include "search/cost/timing/stage_times.h"
#include "search/cost/unit_ops.h"
#include "search/plan/memory_margin.h"
#include "search/plan/model_stages.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action_kinds.h"
#include "search/shapes/local_dims.h"

namespace autocfg {
namespace {

// An estimate uses the timer where the bound is not close, unless it would take long: among the many plans of
// a search, one that fills its pipeline with more computes than this is estimated by the bound.
constexpr std::int64_t kMostEstimatedComputes = 32'768;

// Lower bounds are less than what rounding may add to them.
constexpr double kAtLeast = 1 - 1e-9;

// Returns how many computes it takes to fill the pipeline, of all ranks, which is what the timer walks
// through.
std::int64_t ComputesToFill(const ParallelPlan& plan) { return plan.pp * plan.pp * plan.virtual_stages; }

// Costs of plans that are kept, and of what plans share that differ in messages and states alone: some 3 MB
// each. Plans are gone through by layout, so older ones are rarely needed.
constexpr std::size_t kMostPlanCosts = 3'000, kMostLayerCosts = 3'000;

// Values of timed pipelines that are kept: some 4 MB.
constexpr std::size_t kMostWorkedSizes = 500'000;

// Returns whether each stage of the rank has as many layers as that of the same chunk of the rank before.
// Such ranks between the first and the last are equal.
bool HasLayersOfRankBefore(const ParallelPlan& plan, std::int64_t rank) {
  if (plan.split != SplitMode::kExplicit) return true;
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    const auto stage = static_cast<std::size_t>(StageOf(plan, rank, chunk));
    if (plan.split_layers[stage] != plan.split_layers[stage - 1]) return false;
  }
  return true;
}

std::size_t PlaceIndex(RankPlace place) { return (place.first ? 1 : 0) + (place.last ? 2 : 0); }

// Returns what is said of a plan that takes more than the margin leaves of the capacity.
std::string WhyItDoesNotFit(const MemoryBytes& memory, std::int64_t capacity, double margin) {
  const MemoryRegion& largest = *std::max_element(
      kMemoryRegions.begin(), kMemoryRegions.end(),
      [&](const MemoryRegion& a, const MemoryRegion& b) { return memory.*a.bytes < memory.*b.bytes; });
  const std::int64_t bytes = memory.*largest.bytes;
  const std::string region =
      fmt::format("{} the largest region ({}, {} bytes)", largest.subject, base::BytesText(bytes), bytes);
  const std::int64_t over = memory.Total() - capacity;
  if (over > 0) {
    return fmt::format("needs {} ({} bytes) more than the {} ({} bytes) a rank has; {}",
                       base::BytesText(over), over, base::BytesText(capacity), capacity, region);
  }
  const std::int64_t kept = capacity - UsableBytes(capacity, margin);
  return fmt::format(
      "leaves {} ({} bytes) of the {} ({} bytes) a rank has free, less than the memory margin of {} ({}, {} "
      "bytes); {}",
      base::BytesText(-over), -over, base::BytesText(capacity), capacity, MarginText(margin),
      base::BytesText(kept), kept, region);
}

}  // namespace

CostModel::CostModel(ModelSpec model, Workload workload, ClusterSpec cluster, OpTimes times,
                     std::int64_t device_overhead_bytes, double memory_margin)
    : CostModel(std::move(model), std::move(workload), std::move(cluster),
                std::make_shared<const OpTimes>(std::move(times)), device_overhead_bytes, memory_margin) {}

CostModel::CostModel(ModelSpec model, Workload workload, ClusterSpec cluster,
                     std::shared_ptr<const OpTimeModel> times, std::int64_t device_overhead_bytes,
                     double memory_margin)
    : model_(std::move(model)),
      workload_(std::move(workload)),
      cluster_(std::move(cluster)),
      times_(std::move(times)),
      host_op_s_(times_->HostOpSeconds()),
      device_overhead_bytes_(device_overhead_bytes),
      capacity_bytes_(MemoryCapacity(cluster_)),
      memory_margin_(memory_margin) {
  if (!cluster_.calibration) return;
  layers_ = ShapeCorrections(cluster_.calibration->layers);
  output_layers_ = ShapeCorrections(cluster_.calibration->output_layers);
}

CostModel::Corrections CostModel::CorrectionsOf(const ParallelPlan& plan) const {
  const BlockShape shape{
      .hidden = model_.hidden, .seq_len = workload_.seq_len, .micro_batch = plan.micro_batch, .tp = plan.tp};
  return {layers_.At(shape), output_layers_.At(shape)};
}

std::int64_t CostModel::UsableBytes() const { return autocfg::UsableBytes(capacity_bytes_, memory_margin_); }

MemoryBytes CostModel::ArenaOf(const ParallelPlan& plan) const {
  return NeedsMemory(cluster_.engine) ? WorstRankMemory(cluster_.engine, model_, workload_, plan)
                                      : WorstRankMemory(model_, workload_, plan);
}

Prediction CostModel::PredictMemory(const ParallelPlan& plan) const {
  Prediction prediction;
  prediction.memory = ArenaOf(plan);
  prediction.memory.device_overhead = device_overhead_bytes_;
  prediction.capacity_bytes = capacity_bytes_;
  prediction.feasible = prediction.memory.Total() <= UsableBytes();
  if (!prediction.feasible)
    prediction.reason = WhyItDoesNotFit(prediction.memory, capacity_bytes_, memory_margin_);
  return prediction;
}

TimedStep CostModel::TimeStepOf(const ParallelPlan& plan, const PipelineCosts& costs) {
  const ProgramTimer& timer = timers_.Find(PipelineShape(model_, plan, MicrobatchCount(workload_, plan)));
  return TimeStep(timer, costs, RanksPerCore());
}

const std::vector<double>& CostModel::WorkedSecondsOf(const ParallelPlan& plan, const PipelineCosts& costs) {
  const double shared = RanksPerCore();
  WorkKey key{PipelineShape(model_, plan, MicrobatchCount(workload_, plan)), {costs.p2p_s}};
  // What follows the backwards.
  key.shape.gathers_parameters = key.shape.reduces_gradients = key.shape.sums_norm_gradients = false;
  key.shape.tied_embeddings = false;
  std::vector<double>& seconds = key.seconds;
  seconds.reserve(1 + 5 * costs.stages.size() + costs.ranks.size());
  for (const StageCosts& c : costs.stages) {
    seconds.insert(seconds.end(),
                   {UnloadedForward(c, shared), UnloadedBackward(c, shared), UnloadedWeights(c, shared),
                    UnloadedSaving(c, shared), UnloadedWeightSaving(c, shared)});
  }
  for (const RankCosts& rank : costs.ranks) seconds.push_back(rank.zero_s + rank.wait_s);
  if (const auto known = worked_.find(key); known != worked_.end()) return known->second;
  const std::size_t sizes = seconds.size() + costs.ranks.size();
  worked_sizes_ += sizes;
  if (worked_sizes_ > kMostWorkedSizes) {
    worked_.clear();
    worked_sizes_ = sizes;
  }
  std::vector<double> worked_s = TimeStep(timers_.Find(key.shape), costs, shared).worked_s;
  return worked_.emplace(std::move(key), std::move(worked_s)).first->second;
}

bool CostModel::IsTimed(const ParallelPlan& plan, const PipelineCosts& costs) const {
  return ComputesToFill(plan) <= kMostEstimatedComputes &&
         !PipelineBoundIsClose(costs, plan.schedule, MicrobatchCount(workload_, plan), RanksPerCore());
}

Breakdown CostModel::BreakdownOf(const ParallelPlan& plan, const PipelineCosts& costs) {
  const double shared = RanksPerCore();
  const std::int64_t microbatches = MicrobatchCount(workload_, plan);
  if (!IsTimed(plan, costs)) {
    return autocfg::BreakdownOf(costs, microbatches, shared,
                                PipelineBound(costs, plan.schedule, microbatches, shared));
  }
  return autocfg::BreakdownOf(costs, microbatches, shared, WorkedSecondsOf(plan, costs));
}

StageCosts CostModel::StageAtLeast(const ParallelPlan& plan, std::int64_t layers, bool first, bool last) {
  BoundCosts::Stage& known = bound_costs_.stages[(first ? 1 : 0) + (last ? 2 : 0)];
  if (known.layers != layers)
    known = {layers, SumWithoutRecompute(bound_costs_.plan.blocks, layers, first, last)};
  return CostsAtLeast(bound_costs_.plan.blocks, plan, layers, known.without_recompute, host_op_s_);
}

void CostModel::FindAlikeRanks(const ParallelPlan& plan) {
  const StageTerms terms{.ranks_per_core = RanksPerCore(),
                         .overlaps_messages = OverlapsMessages(plan),
                         .single = MicrobatchCount(workload_, plan) == 1};
  const double p2p_s = bound_costs_.plan.p2p_s;
  const std::int64_t stages = StageCount(plan), chunks = plan.virtual_stages;
  alike_ranks_.clear();
  if (plan.split != SplitMode::kExplicit) {
    const std::int64_t layers = model_.layers / stages;
    const StageCosts first = StageAtLeast(plan, layers, true, stages == 1);
    AlikeRanks& first_rank = alike_ranks_.emplace_back();
    AddChunks(terms, first, 1, 0, stages == 1 ? 0 : p2p_s, first_rank);
    if (plan.pp == 1) return;
    const StageCosts last = StageAtLeast(plan, layers, false, true);
    StageCosts between;
    if (stages > 2) between = StageAtLeast(plan, layers, false, false);
    if (chunks > 1) AddChunks(terms, between, chunks - 1, p2p_s, p2p_s, first_rank);
    if (plan.pp > 2) {
      AlikeRanks& others = alike_ranks_.emplace_back();
      others.count = plan.pp - 2;
      AddChunks(terms, between, chunks, p2p_s, p2p_s, others);
    }
    AlikeRanks& last_rank = alike_ranks_.emplace_back();
    if (chunks > 1) AddChunks(terms, between, chunks - 1, p2p_s, p2p_s, last_rank);
    AddChunks(terms, last, 1, p2p_s, 0, last_rank);
    return;
  }
  // Stages between the first and the last have one of a few numbers of layers, one or two next to each other.
  struct Between {
    std::int64_t layers = -1;
    StageCosts costs;
  };
  std::array<Between, 2> between;
  for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
    if (rank >= 2 && rank + 1 < plan.pp && HasLayersOfRankBefore(plan, rank)) {
      ++alike_ranks_.back().count;
      continue;
    }
    AlikeRanks& ranks = alike_ranks_.emplace_back();
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t stage = StageOf(plan, rank, chunk), layers = StageLayerCount(model_, plan, stage);
      const bool first = IsFirstStage(stage), last = IsLastStage(plan, stage);
      if (first || last) {
        AddChunks(terms, StageAtLeast(plan, layers, first, last), 1, first ? 0 : p2p_s, last ? 0 : p2p_s,
                  ranks);
        continue;
      }
      Between& known = between[static_cast<std::size_t>(layers % 2)];
      if (known.layers != layers) known = {layers, StageAtLeast(plan, layers, false, false)};
      AddChunks(terms, known.costs, 1, p2p_s, p2p_s, ranks);
    }
  }
}

double CostModel::FirstRankAtLeast(const ParallelPlan& plan) const {
  const BlockCosts& blocks = bound_costs_.plan.blocks;
  const RankCosts& rank = bound_costs_.first_rank.rank;
  const auto layers = static_cast<double>(bound_costs_.first_rank_layers);
  double reduce_s = rank.norm_gradients_s + rank.reduce_s, wait_s = 0;
  if (OverlapsGradients(plan) && !ShardsGradients(plan)) {
    const UnitTimes& reduce = blocks.units.reduce;
    const double all_s = RankUnitCosts(model_, workload_, plan, 0, blocks).AllReductions();
    if (blocks.units.hidden) {
      // The last compute reduces its units while it runs, the last of them after it.
      const std::int64_t of_stage = StageLayerCount(model_, plan, 0);
      const auto stage_layers = static_cast<double>(of_stage);
      double last_s = reduce.token_embedding;
      double compute_s = blocks.embedding.backward_s + blocks.positions.backward_s +
                         blocks.arrival.backward_s + blocks.head.backward_s +
                         stage_layers * blocks.layer.backward_s + stage_layers * blocks.recompute.backward_s;
      if (SplitsBackward(plan)) {
        const std::int64_t delaying = LayersWithDelayedGradients(plan, of_stage);
        last_s = delaying > 0 ? reduce.layer : 0;
        compute_s = static_cast<double>(delaying) * blocks.weights.weight_s;
      }
      reduce_s += std::max(0.0, std::max(last_s, all_s - compute_s) - rank.norm_gradients_s);
    } else {
      reduce_s += all_s;
    }
  }
  if (OverlapsParameters(plan)) {
    const UnitTimes& gather = blocks.units.gather;
    if (!blocks.units.hidden) {
      wait_s = bound_costs_.first_rank.gather_all_s;
    } else {
      // The embedding is needed at once, the last layer of a rank with one stage once those before it are
      // done.
      wait_s = bound_costs_.first_rank.gather_norms_s;
      if (!ShardsParameters(plan)) {
        wait_s += gather.token_embedding;
        if (plan.virtual_stages == 1) {
          const double before_s =
              blocks.embedding.forward_s + blocks.positions.forward_s + (layers - 1) * blocks.layer.forward_s;
          wait_s = std::max(wait_s, wait_s + gather.positions + layers * gather.layer - before_s);
        }
      }
      wait_s = std::max(0.0, wait_s - rank.zero_s);
    }
  }
  if (plan.pp > 1) reduce_s += rank.tied_s;
  return rank.zero_s + wait_s + reduce_s + rank.norm_s + rank.update_s + rank.gather_s;
}

void CostModel::FindBoundCosts(const ParallelPlan& plan) {
  const bool same = bound_costs_.mesh == plan.mesh() && bound_costs_.layer == plan.layer() &&
                    bound_costs_.messages == plan.messages() && bound_costs_.states == plan.states() &&
                    bound_costs_.schedule == plan.schedule;
  const std::int64_t layers = RankLayers(model_, plan, 0);
  if (!same || layers != bound_costs_.first_rank_layers) {
    if (!same) {
      bound_costs_.plan = PlanCostsOf(plan);
      for (BoundCosts::Stage& stage : bound_costs_.stages) stage.layers = -1;
    }
    bound_costs_.first_rank = RegionCostsOf(plan, 0);
    bound_costs_.first_rank_layers = layers;
    bound_costs_.mesh = plan.mesh();
    bound_costs_.layer = plan.layer();
    bound_costs_.messages = plan.messages();
    bound_costs_.states = plan.states();
    bound_costs_.schedule = plan.schedule;
  }
}

double CostModel::SecondsAtLeast(const ParallelPlan& plan) {
  FindBoundCosts(plan);
  FindAlikeRanks(plan);
  return kAtLeast * (BusyRankBound(alike_ranks_, plan.schedule, MicrobatchCount(workload_, plan)) +
                     FirstRankAtLeast(plan) + bound_costs_.plan.scalars_s);
}

std::optional<double> CostModel::ClosedFormAtLeast(const ParallelPlan& plan) {
  FindBoundCosts(plan);
  const double outside_s = FirstRankAtLeast(plan) + bound_costs_.plan.scalars_s;
  const PipelineCosts& costs = CostsOf(plan);
  if (!IsTimed(plan, costs)) return std::nullopt;
  const PipelineEnd end =
      PipelineBound(costs, plan.schedule, MicrobatchCount(workload_, plan), RanksPerCore());
  return kAtLeast * (end.seconds - end.lead_s.front() + outside_s);
}

bool CostModel::BoundIsClose(const ParallelPlan& plan) {
  return PipelineBoundIsClose(CostsOf(plan), plan.schedule, MicrobatchCount(workload_, plan), RanksPerCore());
}

Prediction CostModel::Estimate(const ParallelPlan& plan) {
  Prediction prediction = PredictMemory(plan);
  prediction.breakdown = BreakdownOf(plan, CostsOf(plan));
  prediction.step_time_s = prediction.breakdown.Total();
  prediction.step_time_low_s = prediction.step_time_high_s = prediction.step_time_s;
  return prediction;
}

double CostModel::EstimatedSeconds(const ParallelPlan& plan, double host_op_s) {
  return BreakdownOf(plan, CostsOf(plan, host_op_s)).Total();
}

Prediction CostModel::Predict(const ParallelPlan& plan) {
  Prediction prediction = Estimate(plan);  // leaves the plan's costs in costs_
  // Without a pipeline, a rank runs one action after the other, and the closed form is their exact sum.
  if (plan.pp == 1) return prediction;
  const double shared = RanksPerCore();
  const TimedStep timed = TimeStepOf(plan, costs_);
  double total = timed.step_time_s;
  if (shared > 1) {  // the pipeline begins after the step's scalars are zeroed
    const double pipeline_end_s = *std::max_element(timed.worked_s.begin(), timed.worked_s.end());
    const double at_least_s = SharedCoreSeconds(costs_, MicrobatchCount(workload_, plan));
    const RankCosts& first = costs_.ranks.front();
    total += std::max(0.0, first.zero_s + first.wait_s + at_least_s - pipeline_end_s);
  }

  // The attribution is Estimate's. The difference in time counts as bubble; below a bubble of zero, all other
  // parts shrink alike.
  Breakdown& parts = prediction.breakdown;
  const double busy = parts.Total() - parts.bubble;
  parts.bubble = std::max(0.0, total - busy);
  if (busy > total) parts.Scale(total / busy);
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
  // The program is valid by construction; a stuck one is a bug that must not pass as a time.
  if (!step.ok()) throw std::logic_error(std::string(step.status().message()));
  return *std::move(step);
}

double CostModel::HiddenComm(const ParallelPlan& plan) {
  if (plan.pp == 1) return 0;
  const PipelineCosts& costs = CostsOf(plan);
  // One pipeline of the plan: ranks that differ only in their tensor or data coordinate do the same.
  ParallelPlan pipeline;
  pipeline.pp = plan.pp;
  pipeline.virtual_stages = plan.virtual_stages;
  pipeline.schedule = plan.schedule;
  pipeline.micro_batch = plan.micro_batch;
  pipeline.split = plan.split;
  pipeline.split_layers = plan.split_layers;
  Workload share = workload_;
  share.global_batch /= plan.dp;
  const Program program = Lower(model_, share, pipeline);
  const auto step = TraceProgram(program, [&](std::int32_t rank, const Action& action) {
    return SecondsOf(costs, RanksPerCore(), rank, action);
  });
  if (!step.ok()) throw std::logic_error(std::string(step.status().message()));
  std::vector<std::vector<ActionTime>> times(program.ranks.size());
  for (const TraceRow& row : step->rows)
    times[static_cast<std::size_t>(row.rank)].push_back({row.start_s, row.end_s});
  double longest_s = -1, hidden_s = 0;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const RankBreakdown one = BreakdownOfRank(program.ranks[rank], times[rank], step->step_time_s, false);
    if (one.parts.compute > longest_s) hidden_s = one.hidden_comm_s;
    longest_s = std::max(longest_s, one.parts.compute);
  }
  return hidden_s;
}

OpSum CostModel::SumOf(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const {
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

OpSum CostModel::SumOfHead(const ParallelPlan& plan, const std::vector<OpDesc>& ops) const {
  return SumOps(plan, ops, [&](const OpDesc& op) { return times_->OutputLayer().Seconds(op, plan); });
}

std::size_t CostModel::KeyHash::operator()(const BlockOpsKey& key) const {
  return absl::HashOf(key.tp, key.layer.micro_batch, key.layer.recompute, key.layer.sequence_parallel);
}

std::size_t CostModel::KeyHash::operator()(const PlanCostsKey& key) const {
  return absl::HashOf(key.mesh.tp, key.mesh.pp, key.mesh.dp, key.layer.micro_batch, key.layer.recompute,
                      key.layer.sequence_parallel, key.messages.p2p_overlap, key.messages.scatter_gather);
}

std::size_t CostModel::KeyHash::operator()(const LayerCostsKey& key) const {
  return absl::HashOf(key.mesh.tp, key.mesh.pp, key.mesh.dp, key.layer.micro_batch, key.layer.recompute,
                      key.layer.sequence_parallel, key.layer.tp_overlap);
}

std::size_t CostModel::KeyHash::operator()(const RegionKey& key) const {
  return absl::HashOf(key.mesh.tp, key.mesh.pp, key.mesh.dp, key.layers, key.place);
}

const CostModel::BlockOps& CostModel::BlockOpsOf(const ParallelPlan& plan) {
  const bool splits = SplitsBackward(plan);
  BlockOpsKey key{plan.tp, plan.layer(), ShardsGradients(plan), EmbeddingAddsToHead(model_, plan), splits};
  key.layer.recompute = Recompute::kNone;  // which only repeats ops
  if (const auto it = block_ops_.find(key); it != block_ops_.end()) return it->second;
  BlockOps c;
  c.layer_forward = SumOf(plan, LayerForwardOps(model_, workload_, plan));
  const auto layer_backward = [&](bool accumulate) {
    return SumOf(plan, LayerBackwardOps(model_, workload_, plan, accumulate));
  };
  c.layer_backward = layer_backward(true);
  c.first_layer_s = layer_backward(false).compute_s;
  if (splits) {
    c.recomputing_backward =
        std::exchange(c.layer_backward, SumOf(plan, LayerInputGradientOps(model_, workload_, plan, true)));
    c.first_recomputing_s = std::exchange(
        c.first_layer_s, SumOf(plan, LayerInputGradientOps(model_, workload_, plan, false)).compute_s);
    c.layer_weights = SumOf(plan, LayerWeightGradientOps(model_, workload_, plan, true));
    c.first_weights_s = SumOf(plan, LayerWeightGradientOps(model_, workload_, plan, false)).compute_s;
  }
  c.embedding_forward = SumOf(plan, EmbeddingForwardOps(model_, workload_, plan));
  c.embedding_backward = SumOf(plan, EmbeddingBackwardOps(model_, workload_, plan, true));
  c.first_embedding_s = SumOf(plan, EmbeddingBackwardOps(model_, workload_, plan, false)).compute_s;
  c.position_forward = SumOf(plan, PositionForwardOps(model_, workload_, plan));
  c.position_backward = SumOf(plan, PositionBackwardOps(model_, workload_, plan, true));
  c.first_position_s = SumOf(plan, PositionBackwardOps(model_, workload_, plan, false)).compute_s;
  c.head_forward = SumOfHead(plan, HeadForwardOps(model_, workload_, plan));
  c.head_backward = SumOfHead(plan, HeadBackwardOps(model_, workload_, plan, true));
  c.first_head_s = SumOfHead(plan, HeadBackwardOps(model_, workload_, plan, false)).compute_s;
  return block_ops_.emplace(key, std::move(c)).first->second;
}

double CostModel::SecondsOfOps(const ParallelPlan& plan, std::int64_t pipeline_rank, ActionKind kind) const {
  double seconds = 0;
  if (IsMicrobatch(kind)) {
    for (const OpDesc& op : ActionOps(model_, workload_, plan, pipeline_rank, Action{.kind = kind}))
      seconds += times_->Seconds(op, plan);
    return seconds;
  }
  for (const RepeatedOp& repeated : RankOps(model_, workload_, plan, pipeline_rank, kind))
    seconds += static_cast<double>(repeated.times) * times_->Seconds(repeated.op, plan);
  return seconds;
}

const BlockCosts& CostModel::LayerCostsOf(const ParallelPlan& plan) {
  const bool splits = SplitsBackward(plan);
  const LayerCostsKey key{plan.mesh(), plan.layer(), ShardsGradients(plan), splits};
  if (const auto it = layer_costs_.find(key); it != layer_costs_.end()) return it->second;
  const BlockOps& compute = BlockOpsOf(plan);
  // Chunks are reduced by one op many times. A copy: sums of ops come and go.
  std::optional<OpDesc> last;
  double last_s = 0;
  const SecondsOfOp message_seconds = [&](const OpDesc& op) {
    if (!last || *last != op) {
      last_s = times_->Seconds(op, plan);
      last = op;
    }
    return last_s;
  };
  const bool hides = HidesCollectives(cluster_);
  const double contention = OverlapContention(cluster_);
  const auto exposed = [&](const ChunkedProduct& chunked) {
    if (hides) return ExposedSeconds(chunked, message_seconds, contention);
    double all_s = 0;
    for (const OpDesc& op : chunked.reductions) all_s += message_seconds(op);
    return all_s;
  };
  const auto add = [&](const OpSum& sum, double& all_s, double& messages_s, double& ops) {
    double messages = 0;
    for (const OpDesc& op : sum.messages) messages += message_seconds(op);
    for (const ChunkedProduct& chunked : sum.chunked) messages += exposed(chunked);
    messages_s += messages;
    all_s += sum.compute_s + messages;
    ops += sum.ops;
  };
  const auto add_forward = [&](const OpSum& sum, StageCosts& part) {
    add(sum, part.forward_s, part.tp_forward_s, part.forward_ops);
  };
  const auto add_backward = [&](const OpSum& sum, double first_s, StageCosts& part) {
    add(sum, part.backward_s, part.tp_backward_s, part.backward_ops);
    part.first_saves_s = sum.compute_s - first_s;
  };
  BlockCosts blocks;
  add_forward(compute.layer_forward, blocks.layer);
  if (cluster_.engine.hides_backward_gathers) {
    OpSum backward = compute.layer_backward;
    double hidden_s = 0;
    std::erase_if(backward.messages, [&](const OpDesc& op) {
      if (op.kind != OpKind::kAllGather) return false;
      hidden_s += message_seconds(op);
      return true;
    });
    add_backward(backward, compute.first_layer_s, blocks.layer);
    blocks.layer.backward_s += contention * hidden_s;
    blocks.layer.tp_backward_s += contention * hidden_s;
  } else {
    add_backward(compute.layer_backward, compute.first_layer_s, blocks.layer);
  }
  add(SumOf(plan, LayerRecomputeOps(model_, workload_, plan)), blocks.recompute.recompute_s,
      blocks.recompute.tp_recompute_s, blocks.recompute.backward_ops);
  blocks.recompute.backward_s = blocks.recompute.recompute_s;
  if (splits) {
    StageCosts& weights = blocks.weights;
    add(compute.layer_weights, weights.weight_s, weights.tp_weight_s, weights.weight_ops);
    weights.weight_first_saves_s = compute.layer_weights.compute_s - compute.first_weights_s;
  }
  if (splits && plan.recompute == Recompute::kFull) {
    StageCosts whole;
    add_backward(compute.recomputing_backward, compute.first_recomputing_s, whole);
    blocks.recompute.backward_s += whole.backward_s - blocks.layer.backward_s;
    blocks.recompute.first_saves_s += whole.first_saves_s - blocks.layer.first_saves_s;
    blocks.recompute.tp_backward_s += whole.tp_backward_s - blocks.layer.tp_backward_s;
    blocks.recompute.backward_ops += whole.backward_ops - blocks.layer.backward_ops;
  }
  add_forward(compute.embedding_forward, blocks.embedding);
  add_backward(compute.embedding_backward, compute.first_embedding_s, blocks.embedding);
  add_forward(compute.position_forward, blocks.positions);
  add_backward(compute.position_backward, compute.first_position_s, blocks.positions);
  add_forward(compute.head_forward, blocks.head);
  add_backward(compute.head_backward, compute.first_head_s, blocks.head);
  if (layer_costs_.size() >= kMostLayerCosts) layer_costs_.clear();
  return layer_costs_.emplace(key, blocks).first->second;
}

const CostModel::PlanCosts& CostModel::PlanCostsOf(const ParallelPlan& plan) {
  const PlanCostsKey key{plan.mesh(), plan.layer(), plan.messages(), StatesOfStages(plan),
                         SplitsBackward(plan)};
  if (const auto it = plan_costs_.find(key); it != plan_costs_.end()) return it->second;
  PlanCosts p;
  BlockCosts& blocks = p.blocks;
  blocks = LayerCostsOf(plan);
  const EngineProfile& engine = cluster_.engine;
  const OpSum arrival = SumOf(plan, ArrivalOps(model_, workload_, plan));
  double messages_s = 0;
  for (const OpDesc& op : arrival.messages) messages_s += times_->Seconds(op, plan);
  blocks.arrival = {.forward_s = arrival.compute_s + messages_s,
                    .backward_s = arrival.compute_s + messages_s,
                    .tp_forward_s = messages_s,
                    .tp_backward_s = messages_s,
                    .forward_ops = arrival.ops,
                    .backward_ops = arrival.ops};
  blocks.units = UnitCostsOf(plan);
  if (engine != EngineProfile()) AddEngineCosts(engine, plan, SecondsOfPass(plan), blocks);
  if (cluster_.calibration) {
    const Corrections corrections = CorrectionsOf(plan);
    const double layer = std::exp(corrections.layer.mean);
    for (StageCosts* block : {&blocks.layer, &blocks.recompute, &blocks.weights}) Scale(*block, layer);
    Scale(blocks.head, std::exp(corrections.output_layer.mean));
  }
  if (plan.pp > 1) {
    p.p2p_s = std::max(SecondsOfOps(plan, 0, ActionKind::kSendActivation),
                       SecondsOfOps(plan, 0, ActionKind::kRecvActivation));
  }
  if (RankCount(plan) > 1) p.scalars_s = times_->Seconds(ScalarReduceOp(plan), plan);
  p.scalars_s += engine.step_s;
  if (plan_costs_.size() >= kMostPlanCosts) plan_costs_.clear();
  return plan_costs_.emplace(key, p).first->second;
}

double CostModel::SecondsOfPass(const ParallelPlan& plan) const {
  const LocalDims dims = LocalDimsOf(model_, workload_, plan);
  // An addition reads two tensors and writes one; the difference of two has no launch.
  const auto seconds = [&](std::int64_t rows) {
    return times_->Seconds(
        {.kind = OpKind::kResidualAdd, .dtype = workload_.precision.compute, .dims = {rows, dims.hidden}},
        plan);
  };
  return (seconds(2 * dims.rows) - seconds(dims.rows)) / 3;
}

UnitCosts CostModel::UnitCostsOf(const ParallelPlan& plan) const {
  UnitCosts costs;
  costs.hidden = HidesCollectives(cluster_);
  costs.contention = OverlapContention(cluster_);
  if (StatesOfStages(plan) == StateOptions()) return costs;
  const RankUnits units = UnitsOf(LocalDimsOf(model_, workload_, plan), model_, plan,
                                  {.first = true, .last = true}, model_.layers);
  const auto times = [&](OpDesc (*op)(const Workload&, const ParallelPlan&, std::int64_t)) {
    const auto seconds = [&](std::int64_t elements) {
      return elements == 0 ? 0 : times_->Seconds(op(workload_, plan, elements), plan);
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

const CostModel::RegionCosts& CostModel::RegionCostsOf(const ParallelPlan& plan, std::int64_t pipeline_rank) {
  const std::int64_t layers = RankLayers(model_, plan, pipeline_rank);
  const std::size_t place = PlaceIndex(PlaceOf(plan, pipeline_rank));
  const RegionKey key{plan.mesh(), plan.states(), SplitsSequence(plan), layers, place};
  const auto [it, made] = region_costs_.try_emplace(key);
  RegionCosts& costs = it->second;
  if (!made) return costs;
  RankCosts& rank = costs.rank;
  for (const RepeatedOp& op : RankOps(model_, workload_, plan, pipeline_rank, ActionKind::kZeroScalars)) {
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
  rank.norm_s =
      times_->Seconds(ParameterOp(model_, workload_, plan, pipeline_rank, OpKind::kSumOfSquares), plan);
  rank.update_s = SecondsOfOps(plan, pipeline_rank, ActionKind::kOptimizer);
  return costs;
}

RankCosts CostModel::CostsOfRank(const ParallelPlan& plan, const BlockCosts& blocks,
                                 std::int64_t pipeline_rank) {
  const RegionCosts& region = RegionCostsOf(plan, pipeline_rank);
  RankCosts costs = region.rank;
  const RankUnitCosts units(model_, workload_, plan, pipeline_rank, blocks);
  if (OverlapsGradients(plan) && !ShardsGradients(plan)) {
    // The sum of the gradients of norms runs meanwhile.
    costs.reduce_s += blocks.units.hidden
                          ? std::max(0.0, units.ReductionsAfterCompute() - costs.norm_gradients_s)
                          : units.AllReductions();
  }
  if (OverlapsParameters(plan)) {
    // The zeroing runs meanwhile.
    costs.wait_s = blocks.units.hidden
                       ? std::max(0.0, units.WaitForParameters(region.gather_norms_s) - costs.zero_s)
                       : region.gather_all_s;
  }
  return costs;
}

const BlockCosts& CostModel::BlocksOf(const ParallelPlan& plan) { return PlanCostsOf(plan).blocks; }

const PipelineCosts& CostModel::CostsOf(const ParallelPlan& plan, double host_op_s) {
  const PlanCosts& plan_costs = PlanCostsOf(plan);
  costs_.p2p_s = plan_costs.p2p_s;
  costs_.overlaps_messages = OverlapsMessages(plan);
  costs_.scalars_s = plan_costs.scalars_s;
  costs_.stages.clear();
  costs_.ranks.clear();
  const std::int64_t stages = StageCount(plan);
  std::int64_t layers_before = -1;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t layers = StageLayerCount(model_, plan, stage);
    const bool last = IsLastStage(plan, stage);
    if (stage >= 2 && !last && layers == layers_before) {
      costs_.stages.push_back(costs_.stages.back());
    } else {
      costs_.stages.push_back(
          CostsOfStage(plan_costs.blocks, plan, layers, IsFirstStage(stage), last, host_op_s));
    }
    layers_before = layers;
  }
  for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
    if (rank >= 2 && rank + 1 < plan.pp && HasLayersOfRankBefore(plan, rank)) {
      costs_.ranks.push_back(costs_.ranks.back());
    } else {
      costs_.ranks.push_back(CostsOfRank(plan, plan_costs.blocks, rank));
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
