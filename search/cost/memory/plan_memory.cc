#include "search/cost/memory/plan_memory.h"

#include <algorithm>

#include "search/blocks/embedding.h"
#include "search/blocks/head.h"
#include "search/blocks/layer.h"
#include "search/ops/memory_sizes.h"
#include "search/plan/placement.h"
#include "search/schedule/generators.h"

namespace autocfg {

namespace {

// Returns the microbatches of a stage that the engine counts.
std::int64_t Counted(const RunView& run, const EngineProfile& engine, std::int64_t stage) {
  const std::int64_t microbatches = MicrobatchCount(run.workload, run.plan);
  return engine.pools_activations ? InFlightTogether(run.plan, microbatches, stage)
                                  : InFlight(run.plan, microbatches, stage);
}

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Whether the engine keeps one input of several layers that recompute.
bool RecomputesChunks(const ParallelPlan& plan, const EngineProfile& engine) {
  return engine.recompute_chunk > 1 && plan.recompute == Recompute::kFull && plan.recompute_layers == 0;
}

// `in_flight_of`: returns that of a stage.
template <typename InFlightOfStage>
RankLoad LoadOf(const RunView& run, const EngineProfile& engine, std::int64_t pipeline_rank,
                const InFlightOfStage& in_flight_of) {
  const bool split = SplitsBackward(run.plan);
  RankLoad load{.place = PlaceOf(run.plan, pipeline_rank)};
  for (std::int64_t chunk = 0; chunk < run.plan.virtual_stages; ++chunk) {
    const std::int64_t stage = StageOf(run.plan, pipeline_rank, chunk);
    const std::int64_t count = StageLayerCount(run.model, run.plan, stage);
    const std::int64_t in_flight = in_flight_of(stage);
    // Where the input of the stage arrives, or a gradient is exchanged, in place of the input of a layer.
    const std::int64_t arrives = !IsFirstStage(stage) || split ? 1 : 0;
    const std::int64_t inputs =
        RecomputesChunks(run.plan, engine) ? CeilDiv(count, engine.recompute_chunk) : count;
    load.layers += count;
    load.hidden += (inputs - arrives) * in_flight;
    load.kept += (count - FullyRecomputedLayers(run.plan, count)) * in_flight;
    load.messages += arrives * in_flight;
    if (IsFirstStage(stage)) load.ids = in_flight;
    // Where backwards are split, a microbatch needs the head only until its input gradient.
    if (IsLastStage(run.plan, stage)) load.heads = split ? 1 : in_flight;
    load.in_flight += in_flight;
  }
  return load;
}

// Returns whether each stage of a rank has as many layers as that of the same chunk of the rank before. The
// plan has an explicit split.
bool HasSameLayers(const ParallelPlan& plan, std::int64_t rank) {
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    const auto stage = static_cast<std::size_t>(StageOf(plan, rank, chunk));
    if (plan.split_layers[stage] != plan.split_layers[stage - 1]) return false;
  }
  return true;
}

// Returns the bytes of a layer that the engine keeps of a microbatch beside what ours stores.
std::int64_t BesideStored(const RunView& run, const EngineProfile& engine, const TensorBytes& bytes) {
  const LocalDims& s = bytes.dims;
  const ParallelPlan& plan = run.plan;
  const Precision& types = run.workload.precision;
  double beside = 0;
  if (SplitsSequence(plan))
    beside += engine.gathered_inputs * static_cast<double>(s.tokens * s.hidden * SizeOf(types.compute));
  if (engine.keeps_operands && types.products != ProductFormat::kCompute) {
    const double narrow = FiguresOf(types.products).Bytes(),
                 less = static_cast<double>(SizeOf(types.compute)) - narrow;
    if (!RecomputesPart(plan, LayerPart::kNorm)) beside -= 2 * less * static_cast<double>(s.rows * s.hidden);
    if (!RecomputesPart(plan, LayerPart::kMlp) && !RecomputesPart(plan, LayerPart::kActivation))
      beside -= less * static_cast<double>(s.tokens * s.ffn);
    // The backward of attention needs its output as it is, too.
    beside += narrow * static_cast<double>(s.tokens * s.attention);
  }
  return static_cast<std::int64_t>(beside);
}

// Returns whether `a` holds the same parameters as `b` and at least as many of each tensor.
bool Covers(const RankLoad& a, const RankLoad& b) {
  return a.place.first == b.place.first && a.place.last == b.place.last && a.layers == b.layers &&
         a.hidden >= b.hidden && a.kept >= b.kept && a.messages >= b.messages && a.ids >= b.ids &&
         a.heads >= b.heads && a.in_flight >= b.in_flight;
}

}  // namespace

RankLoad LoadOf(const RunView& run, const EngineProfile& engine, std::int64_t pipeline_rank) {
  return LoadOf(run, engine, pipeline_rank, [&](std::int64_t stage) { return Counted(run, engine, stage); });
}

std::vector<RankLoad> LargestLoads(const RunView& run, const EngineProfile& engine) {
  std::vector<std::int64_t> in_flight;
  return LargestLoads(run, engine, in_flight);
}

std::vector<RankLoad> LargestLoads(const RunView& run, const EngineProfile& engine,
                                   std::vector<std::int64_t>& in_flight) {
  constexpr std::int64_t kUnknown = -1;
  if (in_flight.empty()) in_flight.assign(static_cast<std::size_t>(StageCount(run.plan)), kUnknown);
  const auto in_flight_of = [&](std::int64_t stage) {
    std::int64_t& known = in_flight[static_cast<std::size_t>(stage)];
    if (known == kUnknown) known = Counted(run, engine, stage);
    return known;
  };
  std::vector<RankLoad> loads;
  const auto consider = [&](std::int64_t rank) {
    const RankLoad load = LoadOf(run, engine, rank, in_flight_of);
    if (std::none_of(loads.begin(), loads.end(), [&](const RankLoad& l) { return Covers(l, load); }))
      loads.push_back(load);
  };
  consider(0);
  // Middle ranks with as many layers hold the same parameters, and slots of the same sizes, one per in-flight
  // microbatch of their stages. From rank 1 on, none of their stages has more in flight than the same chunk
  // of the previous rank: in every schedule, later ranks have a shorter warm-up.
  if (run.plan.pp > 2) consider(1);
  if (run.plan.split == SplitMode::kExplicit) {
    for (std::int64_t rank = 2; rank + 1 < run.plan.pp; ++rank) {
      if (!HasSameLayers(run.plan, rank)) consider(rank);
    }
  }
  if (run.plan.pp > 1) consider(run.plan.pp - 1);
  return loads;
}

PlanMemory::PlanMemory(const RunView& run, const EngineProfile& engine)
    : engine_(engine),
      model_(run.model),
      plan_(run.plan),
      workload_(run.workload),
      types_(run.workload.precision),
      s_(LocalDimsOf(run)) {
  const TensorBytes bytes(run);
  const BlockBytes layer = LayerBytes(run, bytes);
  hidden_ = bytes.Hidden();
  message_ = bytes.Of(s_.message);
  embedding_ = EmbeddingBytes(run.model, bytes);
  layer_ = layer.stored;
  head_ = HeadBytes(run.plan, bytes);

  workspace_ = layer.workspace + layer.recomputed + bytes.Rows(s_.hidden) +
               AlignedBytes(kStepScalars * SizeOf(DType::kF64));
  if (run.plan.pp == 1) workspace_ += hidden_;
  // The gradient of a block's output, beside that of the residual stream.
  if (NormsOutputs(run.model.norm_placement) || run.model.residual_scale != 1) workspace_ += hidden_;
  if (run.plan.recompute == Recompute::kFull) workspace_ += layer_;
  if (RecomputesChunks(run.plan, engine)) {
    const std::int64_t most = CeilDiv(run.model.layers, StageCount(run.plan));
    workspace_ += (std::min(engine.recompute_chunk, most) - 1) * (layer_ + hidden_);
  }
  if (SplitsSequence(run.plan) && TensorChunks(run.plan) > 1) workspace_ += hidden_;  // scattered sums
  // Exchanged with slots. Norms on outputs exchange the gradients of blocks.
  if (SplitsBackward(run.plan) && !NormsOutputs(run.model.norm_placement)) workspace_ += hidden_ + message_;
  if (engine.activation_share != 0) {
    for (std::int64_t* size : {&hidden_, &message_, &embedding_, &layer_, &head_, &workspace_})
      *size = static_cast<std::int64_t>((1 + engine.activation_share) * static_cast<double>(*size));
  }
  layer_ += BesideStored(run, engine, bytes);
}

double PlanMemory::GradientBytes() const {
  if (!GradientsOfOps(types_)) {
    if (types_.compute == DType::kF16) return engine_.fp16_gradient_bytes;
    if (types_.compute == DType::kBF16) return engine_.bf16_gradient_bytes;
  }
  return static_cast<double>(SizeOf(types_.gradients));
}

double PlanMemory::UpdateBytes(const RankUnits& units) const {
  if (GradientBytes() >= static_cast<double>(SizeOf(DType::kF32))) return 0;
  const std::int64_t updated = units.Total() / StateShards(plan_);
  const bool in_turns = ShardsParameters(plan_) && engine_.updated_at_once > 0;
  return engine_.update_bytes *
         static_cast<double>(in_turns ? std::min(updated, engine_.updated_at_once) : updated);
}

std::int64_t PlanMemory::OperandCopies(const RankUnits& units) const {
  if (!engine_.keeps_operands || types_.products == ProductFormat::kCompute) return 0;
  constexpr double kRowsAndColumns = 2;  // scaled along rows for one product, along columns for another
  const std::int64_t kept = KeptElements(plan_, UnitKind::kLayer, State::kParameters, units.layer);
  return static_cast<std::int64_t>(kRowsAndColumns * FiguresOf(types_.products).Bytes() *
                                   static_cast<double>(kept * units.layers));
}

std::int64_t PlanMemory::OptimizerBytes(const RankUnits& units) const {
  const std::int64_t shards = StateShards(plan_), own = units.Total() / shards;
  const std::int64_t of_layers = units.layer * units.layers / shards;
  std::int64_t bytes = types_.master ? own * SizeOf(*types_.master) : 0;
  switch (workload_.optimizer.kind) {
    case OptimizerKind::kAdamW:
    case OptimizerKind::kSgd:
    case OptimizerKind::kLion:
      return bytes + MomentCount(workload_.optimizer) * MomentBytes(own, types_.moments);
    case OptimizerKind::kMuon:
      return bytes + MomentBytes(of_layers, types_.moments) +
             2 * MomentBytes(own - of_layers, types_.moments);
    case OptimizerKind::kAdafactor: break;
  }
  // A matrix has a value for each row and each column, a norm one for each element.
  const auto table = [this](std::int64_t elements) {
    return elements > 0 ? elements / s_.hidden + s_.hidden : 0;
  };
  const std::int64_t of_layer = 4 * s_.hidden + s_.qkv + s_.attention + s_.fc + s_.ffn;
  const std::int64_t factored = of_layer * units.layers + table(units.token_embedding) +
                                table(units.positions) + table(units.output_layer);
  return bytes + MomentBytes((units.norms + factored) / shards, types_.moments);
}

MemoryBytes PlanMemory::Of(const RankLoad& rank, const RankUnits& units) const {
  MemoryBytes bytes;
  bytes.activations = Activations(rank);
  std::int64_t parameters = 0, gradients = 0;
  units.ForEach([&](UnitKind kind, std::int64_t elements, std::int64_t times) {
    parameters += times * KeptElements(plan_, kind, State::kParameters, elements);
    gradients += times * KeptElements(plan_, kind, State::kGradients, elements);
  });
  bytes.parameters = parameters * SizeOf(types_.parameters) + OperandCopies(units);
  bytes.gradients =
      static_cast<std::int64_t>(GradientBytes() * static_cast<double>(gradients) + UpdateBytes(units));
  bytes.optimizer = OptimizerBytes(units);

  bytes.workspace = workspace_ + engine_.library_bytes;
  if (rank.place.last)
    bytes.workspace +=
        static_cast<std::int64_t>(engine_.logit_bytes * static_cast<double>(s_.tokens * s_.vocab));
  // The gradient of a tied table is complete only after that of the embedding. Two buffers take turns where
  // one unit is used while another is reduced or gathered.
  const auto of_units = [&](bool two, bool own_table) {
    return units.LargestStreamed(!own_table) * (two ? 2 : 1) + (own_table ? units.token_embedding : 0);
  };
  const bool tied = model_.tied_embeddings;
  if (ShardsGradients(plan_))
    bytes.workspace += of_units(OverlapsGradients(plan_), tied) * SizeOf(types_.gradients);
  if (ShardsParameters(plan_)) {
    const bool two = OverlapsParameters(plan_);
    bytes.workspace += of_units(two, two && tied) * SizeOf(types_.parameters);
  }
  // Only a last rank with a single stage sends no output and receives no gradient.
  const bool one_way = rank.place.last && plan_.virtual_stages == 1;
  const std::int64_t buffers = one_way ? 2 : OverlapsMessages(plan_) ? 5 : 4;
  if (plan_.pp > 1) bytes.communication += buffers * message_;
  const bool embedding_group =
      plan_.pp > 1 && model_.tied_embeddings && (rank.place.first || rank.place.last);
  const bool sharded = ShardsStates(plan_), replicas = StateReplicas(plan_) > 1;
  bytes.communication += kCollectiveStagingBytes * (SplitsLayers(plan_) + (s_.kv_replicas > 1) + sharded +
                                                    replicas + embedding_group + (RankCount(plan_) > 1));
  return bytes;
}

}  // namespace autocfg
