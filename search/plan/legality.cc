#include "search/plan/legality.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/subject.h"
#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

using Names = std::string_view;

// Stages in all; empty if they are more than layers. Requires positive sizes and legal ranks.
std::optional<std::int64_t> StagesWithLayers(const ParallelPlan& plan, std::int64_t layers) {
  if (plan.virtual_stages > layers / plan.pp) return std::nullopt;
  return plan.pp * plan.virtual_stages;
}

// The most layers that any stage has. Under split=auto: of an even spread, rounded up, which the largest
// stage of every split has at least, so that the resolved plan is legal too. Requires a split that adds up.
std::int64_t MostLayers(const ModelSpec& model, const ParallelPlan& plan) {
  switch (plan.split) {
    case SplitMode::kEven: return model.layers / (plan.pp * plan.virtual_stages);
    case SplitMode::kExplicit: return *std::max_element(plan.split_layers.begin(), plan.split_layers.end());
    case SplitMode::kAuto: {
      const std::int64_t stages = plan.pp * plan.virtual_stages;
      return (model.layers + stages - 1) / stages;
    }
  }
  return model.layers;
}

constexpr std::size_t CountOf(AxisSet axes) {
  std::size_t count = 0;
  for (const AxisRow& row : kAxes) count += axes.Holds(row.axis) ? 1 : 0;
  return count;
}

// The names of the axes, and then these.
template <AxisSet kSet, std::size_t kCount>
constexpr std::array<Names, CountOf(kSet) + kCount> AxesAnd(const std::array<Names, kCount>& others) {
  std::array<Names, CountOf(kSet) + kCount> names;
  std::size_t next = 0;
  for (const AxisRow& row : kAxes) {
    if (kSet.Holds(row.axis)) names[next++] = row.name;
  }
  for (const Names& other : others) names[next++] = other;
  return names;
}
constexpr AxisSet kBatchAxes = AxesThatSplit(Splits::kBatch);

constexpr auto kSizes = AxesAnd<kEveryAxis, 3>({"mbs", "vpp", "tp_overlap"});
bool SizeNotPositive(const PlanCase& c) {
  const ParallelPlan& p = c.plan;
  return !HasPositiveSizes(p) || p.micro_batch < 1 || p.virtual_stages < 1 || p.tp_overlap < 1;
}
std::string ExplainSizeNotPositive(const PlanCase& c) {
  const ParallelPlan& p = c.plan;
  return fmt::format("the sizes are {}, mbs={}, vpp={}, tp_overlap={}; every one must be at least 1",
                     MeshText(p, ", "), p.micro_batch, p.virtual_stages, p.tp_overlap);
}

constexpr auto kAllAxes = AxesAnd<kEveryAxis, 0>({});
bool TooManyRanks(const PlanCase& c) { return HasMoreRanks(c.plan, c.max_ranks); }
std::string ExplainTooManyRanks(const PlanCase& c) {
  return fmt::format("{} is more than the {} ranks there are; use at most {}", MeshText(c.plan, " x "),
                     c.max_ranks, c.max_ranks);
}

constexpr std::array<Names, 3> kSplitOptions = {"pp", "vpp", "split"};
bool LayersNotDivisible(const PlanCase& c) {
  if (c.plan.split != SplitMode::kEven) return false;
  const std::optional<std::int64_t> stages = StagesWithLayers(c.plan, c.model.layers);
  return !stages || c.model.layers % *stages != 0;
}
std::string ExplainLayersNotDivisible(const PlanCase& c) {
  const std::int64_t layers = c.model.layers;
  const bool virtual_stages = c.plan.virtual_stages > 1;
  std::string stages = fmt::format("pp={}", c.plan.pp);
  if (virtual_stages) stages += fmt::format(" x vpp={}", c.plan.virtual_stages);
  const std::string_view size = virtual_stages ? "pp x vpp" : "pp";
  const std::string_view balance = StagesWithLayers(c.plan, layers) ? ", or split=auto" : "";
  return fmt::format("{} layers are not divisible by {}; give a {} that divides {}{}", layers, stages, size,
                     layers, balance);
}

constexpr std::array<Names, 1> kTp = {"tp"};
bool HeadsNotDivisible(const PlanCase& c) { return c.model.heads % c.plan.tp != 0; }
std::string ExplainHeadsNotDivisible(const PlanCase& c) {
  return fmt::format("{} heads are not divisible by tp={}; give a tp that divides {}", c.model.heads,
                     c.plan.tp, c.model.heads);
}
// Ranks may share key-value heads, except with norms over all heads of a token: the engine does not sum the
// gradients of their weights, which are split like the heads, over the ranks that share one.
bool SharesKvHeads(const PlanCase& c) {
  return c.plan.tp % c.model.kv_heads == 0 && c.model.qk_norm != QkNorm::kFull;
}
bool KvHeadsNotDivisible(const PlanCase& c) { return c.model.kv_heads % c.plan.tp != 0 && !SharesKvHeads(c); }
std::string ExplainKvHeadsNotDivisible(const PlanCase& c) {
  const std::string_view or_multiple = c.model.qk_norm == QkNorm::kFull ? "" : " or is a multiple of it";
  return fmt::format("{} kv heads are not divisible by tp={}; give a tp that divides {}{}", c.model.kv_heads,
                     c.plan.tp, c.model.kv_heads, or_multiple);
}
bool FfnNotDivisible(const PlanCase& c) { return c.model.ffn_hidden % c.plan.tp != 0; }
std::string ExplainFfnNotDivisible(const PlanCase& c) {
  return fmt::format("ffn_hidden {} is not divisible by tp={}; give a tp that divides {}", c.model.ffn_hidden,
                     c.plan.tp, c.model.ffn_hidden);
}

constexpr auto kBatchOptions = AxesAnd<kBatchAxes, 1>({"mbs"});
bool BatchNotDivisible(const PlanCase& c) {
  const std::int64_t batch = c.workload.global_batch, ranks = BatchRanks(c.plan);
  return batch % ranks != 0 || batch / ranks % c.plan.micro_batch != 0;
}
std::string ExplainBatchNotDivisible(const PlanCase& c) {
  return fmt::format(
      "global batch {} is not divisible by dp={} x mbs={}; choose dp and mbs so that dp x mbs divides {}",
      c.workload.global_batch, BatchRanks(c.plan), c.plan.micro_batch, c.workload.global_batch);
}

constexpr std::array<Names, 3> kInterleaving = {"schedule", "vpp", "pp"};
bool InterleavedNeedsStages(const PlanCase& c) {
  return TakesVirtualStages(c.plan.schedule) && (c.plan.virtual_stages == 1 || c.plan.pp == 1);
}
std::string ExplainInterleavedNeedsStages(const PlanCase& c) {
  return fmt::format(
      "schedule={} cannot order vpp={} and pp={}; give vpp and pp of at least 2, or another schedule with "
      "vpp=1",
      Name(c.plan.schedule), c.plan.virtual_stages, c.plan.pp);
}
constexpr std::array<Names, 2> kVirtualStagesOptions = {"schedule", "vpp"};
bool VirtualStagesNeedInterleaved(const PlanCase& c) {
  return !TakesVirtualStages(c.plan.schedule) && c.plan.virtual_stages > 1;
}
std::string ExplainVirtualStagesNeedInterleaved(const PlanCase& c) {
  return fmt::format("schedule={} cannot order vpp={}; use schedule=interleaved or vpp=1",
                     Name(c.plan.schedule), c.plan.virtual_stages);
}
constexpr auto kMicrobatches = AxesAnd<kBatchAxes, 3>({"schedule", "pp", "mbs"});
bool MicrobatchesNotMultipleOfStages(const PlanCase& c) {
  return c.plan.schedule == Schedule::kInterleaved && MicrobatchCount(c.workload, c.plan) % c.plan.pp != 0;
}
std::string ExplainMicrobatchesNotMultipleOfStages(const PlanCase& c) {
  return fmt::format(
      "schedule=interleaved needs a multiple of pp={} microbatches, not {}; choose pp, dp and mbs so that pp "
      "x dp x mbs divides {}",
      c.plan.pp, MicrobatchCount(c.workload, c.plan), c.workload.global_batch);
}

constexpr std::array<Names, 2> kParamOverlap = {"param_overlap", "zero"};
bool ParamOverlapNeedsZero(const PlanCase& c) { return c.plan.param_overlap && c.plan.zero_stage == 0; }
std::string ExplainParamOverlapNeedsZero(const PlanCase&) {
  return "param_overlap=1 gathers nothing at zero=0; use zero=1, 2 or 3, or param_overlap=0";
}
bool SplitDoesNotAddUp(const PlanCase& c) {
  if (c.plan.split == SplitMode::kEven) return false;
  const std::optional<std::int64_t> stages = StagesWithLayers(c.plan, c.model.layers);
  if (!stages) return true;
  if (c.plan.split == SplitMode::kAuto) return false;
  if (c.plan.split_layers.size() != static_cast<std::size_t>(*stages)) return true;
  std::int64_t left = c.model.layers;
  for (const std::int64_t count : c.plan.split_layers) {
    if (count < 1 || count > left) return true;
    left -= count;
  }
  return left != 0;
}
std::string ExplainSplitDoesNotAddUp(const PlanCase& c) {
  const ParallelPlan& p = c.plan;
  if (p.split == SplitMode::kAuto) {
    return fmt::format(
        "split=auto cannot give each of pp={} x vpp={} stages one of {} layers; use at most {} stages", p.pp,
        p.virtual_stages, c.model.layers, c.model.layers);
  }
  const std::int64_t sum = std::accumulate(p.split_layers.begin(), p.split_layers.end(), std::int64_t{0});
  return fmt::format(
      "split has {} entries with {} layers in all; give pp={} x vpp={} entries of at least 1 that add up to "
      "{}",
      p.split_layers.size(), sum, p.pp, p.virtual_stages, c.model.layers);
}

constexpr std::array<Names, 4> kRecompute = {"recompute", "pp", "vpp", "split"};
bool RecomputeLayersTooMany(const PlanCase& c) {
  const ParallelPlan& p = c.plan;
  if (p.recompute != Recompute::kFull || p.recompute_layers == 0) return false;
  return p.recompute_layers < 0 || p.recompute_layers > MostLayers(c.model, p);
}
std::string ExplainRecomputeLayersTooMany(const PlanCase& c) {
  const std::int64_t layers = MostLayers(c.model, c.plan);
  return fmt::format("recompute=full:{} is more than the {} layers of a stage; use at most full:{}",
                     c.plan.recompute_layers, layers, layers);
}

constexpr std::array<Names, 2> kSequence = {"tp", "sp"};
bool SequenceNotDivisible(const PlanCase& c) {
  return c.plan.sequence_parallel && c.workload.seq_len % c.plan.tp != 0;
}
std::string ExplainSequenceNotDivisible(const PlanCase& c) {
  return fmt::format("sequences of {} tokens are not divisible by tp={}; give a tp that divides {}, or sp=0",
                     c.workload.seq_len, c.plan.tp, c.workload.seq_len);
}

constexpr std::array<Names, 2> kShard = {"zero", "dp_shard"};
bool DpShardNeedsZero(const PlanCase& c) { return c.plan.zero_stage == 0 && c.plan.dp_shard > 1; }
std::string ExplainDpShardNeedsZero(const PlanCase& c) {
  return fmt::format("dp_shard={} shards nothing at zero=0; use zero=1, 2 or 3, or leave out dp_shard",
                     c.plan.dp_shard);
}

constexpr auto kShards = AxesAnd<kBatchAxes, 1>({"dp_shard"});
bool DpNotDivisible(const PlanCase& c) {
  return c.plan.dp_shard != 0 && (c.plan.dp_shard < 0 || BatchRanks(c.plan) % c.plan.dp_shard != 0);
}
std::string ExplainDpNotDivisible(const PlanCase& c) {
  return fmt::format("dp={} is not divisible by dp_shard={}; give a dp_shard that divides {}",
                     BatchRanks(c.plan), c.plan.dp_shard, BatchRanks(c.plan));
}

constexpr LegalityRule kRules[] = {
    {IllegalReason::kSizeNotPositive, "size_not_positive", kSizes, SizeNotPositive, ExplainSizeNotPositive},
    {IllegalReason::kTooManyRanks, "too_many_ranks", kAllAxes, TooManyRanks, ExplainTooManyRanks},
    {IllegalReason::kLayersNotDivisible, "layers_not_divisible", kSplitOptions, LayersNotDivisible,
     ExplainLayersNotDivisible},
    {IllegalReason::kHeadsNotDivisible, "heads_not_divisible", kTp, HeadsNotDivisible,
     ExplainHeadsNotDivisible},
    {IllegalReason::kKvHeadsNotDivisible, "kv_heads_not_divisible", kTp, KvHeadsNotDivisible,
     ExplainKvHeadsNotDivisible},
    {IllegalReason::kFfnNotDivisible, "ffn_not_divisible", kTp, FfnNotDivisible, ExplainFfnNotDivisible},
    {IllegalReason::kBatchNotDivisible, "batch_not_divisible", kBatchOptions, BatchNotDivisible,
     ExplainBatchNotDivisible},
    {IllegalReason::kInterleavedNeedsStages, "interleaved_needs_stages", kInterleaving,
     InterleavedNeedsStages, ExplainInterleavedNeedsStages},
    {IllegalReason::kVirtualStagesNeedInterleaved, "virtual_stages_need_interleaved", kVirtualStagesOptions,
     VirtualStagesNeedInterleaved, ExplainVirtualStagesNeedInterleaved},
    {IllegalReason::kMicrobatchesNotMultipleOfStages, "microbatches_not_multiple_of_stages", kMicrobatches,
     MicrobatchesNotMultipleOfStages, ExplainMicrobatchesNotMultipleOfStages},
    {IllegalReason::kParamOverlapNeedsZero, "param_overlap_needs_zero", kParamOverlap, ParamOverlapNeedsZero,
     ExplainParamOverlapNeedsZero},
    {IllegalReason::kSplitDoesNotAddUp, "split_does_not_add_up", kSplitOptions, SplitDoesNotAddUp,
     ExplainSplitDoesNotAddUp},
    {IllegalReason::kRecomputeLayersTooMany, "recompute_layers_too_many", kRecompute, RecomputeLayersTooMany,
     ExplainRecomputeLayersTooMany},
    {IllegalReason::kSequenceNotDivisible, "sequence_not_divisible", kSequence, SequenceNotDivisible,
     ExplainSequenceNotDivisible},
    {IllegalReason::kDpShardNeedsZero, "dp_shard_needs_zero", kShard, DpShardNeedsZero,
     ExplainDpShardNeedsZero},
    {IllegalReason::kDpNotDivisible, "dp_not_divisible", kShards, DpNotDivisible, ExplainDpNotDivisible},
};

// A rule stands at the index of its reason, and every reason but those of searches has one.
constexpr bool RulesFollowReasons() {
  if (std::size(kRules) != static_cast<std::size_t>(IllegalReason::kRanksNotDivisible)) return false;
  for (std::size_t i = 0; i < std::size(kRules); ++i) {
    if (static_cast<std::size_t>(kRules[i].reason) != i) return false;
  }
  return true;
}
static_assert(RulesFollowReasons());

const LegalityRule* FirstBroken(const PlanCase& c) {
  for (const LegalityRule& rule : kRules) {
    if (rule.broken(c)) return &rule;
  }
  return nullptr;
}

}  // namespace

std::span<const LegalityRule> LegalityRules() { return kRules; }

std::string_view Name(IllegalReason reason) {
  if (reason == IllegalReason::kRanksNotDivisible) return "ranks_not_divisible";
  if (reason == IllegalReason::kNotExpressible) return "framework_cannot_express";
  return kRules[static_cast<std::size_t>(reason)].name;
}

std::optional<IllegalReason> FindIllegality(const RunView& run, std::int64_t max_ranks) {
  const LegalityRule* rule = FirstBroken({run, max_ranks});
  if (rule == nullptr) return std::nullopt;
  return rule->reason;
}

std::optional<Illegality> ExplainIllegality(const RunView& run, std::int64_t max_ranks) {
  const PlanCase c{run, max_ranks};
  const LegalityRule* rule = FirstBroken(c);
  if (rule == nullptr) return std::nullopt;
  return Illegality{rule->reason, rule->explain(c)};
}

absl::Status CheckLegal(const RunView& run, std::int64_t max_ranks) {
  const auto illegal = ExplainIllegality(run, max_ranks);
  if (!illegal) return absl::OkStatus();
  return base::InvalidArgument("plan", fmt::format("illegal plan {}: {} ({})", ShortPlanText(run.plan),
                                                   illegal->detail, Name(illegal->reason)));
}

}  // namespace autocfg
