#include "search/frameworks/framework_rules.h"

#include <array>

#include "fmt/format.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

using OptionNames = std::span<const std::string_view>;

constexpr LegalityRule Refused(std::string_view name, OptionNames reads, bool (*broken)(const PlanCase&),
                               std::string (*explain)(const PlanCase&)) {
  return {IllegalReason::kNotExpressible, name, reads, broken, explain};
}

bool IsBf16(const PlanCase& c) { return Name(c.workload.precision) == "bf16"; }
bool IsFp32(const PlanCase& c) { return Name(c.workload.precision) == "fp32"; }
bool HasPartialShards(const ParallelPlan& plan) {
  return plan.zero_stage > 0 && StateShards(plan) != plan.dp;
}
std::string SaysSchedule(const PlanCase& c, std::string_view has) {
  return fmt::format("schedule={} (it has {})", Name(c.plan.schedule), has);
}
std::string SaysFullLayers(const PlanCase& c) {
  return fmt::format("recompute=full:{}", c.plan.recompute_layers);
}

constexpr std::array<std::string_view, 2> kPipelineSchedule = {"pp", "schedule"};
constexpr std::array<std::string_view, 2> kChunksOfSequence = {"tp_overlap", "sp"};
constexpr std::array<std::string_view, 3> kMessageParts = {"tp", "sp", "scatter_gather"};
constexpr std::array<std::string_view, 2> kBothOverlaps = {"grad_overlap", "param_overlap"};
constexpr std::array<std::string_view, 2> kMessagesOfStages = {"p2p_overlap", "vpp"};
constexpr std::array<std::string_view, 3> kMessagesOfPipeline = {"p2p_overlap", "vpp", "pp"};
constexpr std::array<std::string_view, 3> kZeroOverlaps = {"zero", "grad_overlap", "param_overlap"};
constexpr std::array<std::string_view, 3> kShardedZero = {"zero", "dp_shard", "dp"};
constexpr std::array<std::string_view, 2> kPipelineSplit = {"pp", "split"};
constexpr std::array<std::string_view, 2> kPipelineStages = {"pp", "vpp"};
constexpr std::array<std::string_view, 1> kZeroOnly = {"zero"};
constexpr std::array<std::string_view, 2> kZeroReduction = {"zero", "grad_overlap"};
constexpr std::array<std::string_view, 3> kPipelineReduction = {"zero", "pp", "grad_overlap"};
constexpr std::array<std::string_view, 2> kZeroGathering = {"zero", "param_overlap"};
constexpr std::array<std::string_view, 2> kTensorPipeline = {"tp", "pp"};
constexpr std::array<std::string_view, 2> kTensorZero = {"tp", "zero"};
constexpr std::array<std::string_view, 2> kTensorSequence = {"tp", "sp"};
constexpr std::array<std::string_view, 1> kTensorAxis = {"tp"};
constexpr std::array<std::string_view, 1> kRecomputed = {"recompute"};
constexpr std::array<std::string_view, 2> kPipelineMessages = {"pp", "p2p_overlap"};
constexpr std::array<std::string_view, 1> kAnyMessages = {"p2p_overlap"};
constexpr std::array<std::string_view, 1> kAttentionKind = {"attention"};
constexpr std::array<std::string_view, 2> kDataZero = {"dp", "zero"};
constexpr std::array<std::string_view, 4> kReplicas = {"tp", "pp", "dp", "zero"};
constexpr std::array<std::string_view, 3> kMeshAxes = {"tp", "pp", "dp"};
constexpr std::array<std::string_view, 2> kDataReduction = {"dp", "grad_overlap"};
constexpr std::array<std::string_view, 3> kDataGathering = {"dp", "zero", "param_overlap"};

// Megatron-LM and NeMo train with Megatron's core.
constexpr LegalityRule kCoreSchedule = Refused(
    "core_schedule", kPipelineSchedule,
    [](const PlanCase& c) {
      return c.plan.pp > 1 && c.plan.schedule != Schedule::kOneFOneB &&
             c.plan.schedule != Schedule::kInterleaved;
    },
    [](const PlanCase& c) { return SaysSchedule(c, "1f1b and interleaved"); });
constexpr LegalityRule kCoreChunks = Refused(
    "core_chunks", kChunksOfSequence,
    [](const PlanCase& c) { return c.plan.tp_overlap > 1 && !c.plan.sequence_parallel; },
    [](const PlanCase& c) { return fmt::format("tp_overlap={} without sp=1", c.plan.tp_overlap); });
constexpr LegalityRule kCoreMessageParts = Refused(
    "core_message_parts", kMessageParts,
    [](const PlanCase& c) { return c.plan.scatter_gather && !SplitsSequence(c.plan); },
    [](const PlanCase&) { return std::string("scatter_gather=1 without sp=1"); });
constexpr LegalityRule kCoreGathering = Refused(
    "core_gathering", kBothOverlaps,
    [](const PlanCase& c) { return c.plan.param_overlap && !c.plan.grad_overlap; },
    [](const PlanCase&) { return std::string("param_overlap=1 without grad_overlap=1"); });
constexpr LegalityRule kCoreMessages = Refused(
    "core_messages", kMessagesOfStages,
    [](const PlanCase& c) { return c.plan.p2p_overlap && c.plan.virtual_stages == 1; },
    [](const PlanCase&) { return std::string("p2p_overlap=1 without interleaving"); });
constexpr LegalityRule kCorePairOfStages = Refused(
    "core_pair_of_stages", kMessagesOfPipeline,
    [](const PlanCase& c) { return !c.plan.p2p_overlap && c.plan.virtual_stages > 1 && c.plan.pp <= 2; },
    [](const PlanCase&) { return std::string("p2p_overlap=0 of an interleaved pipeline of 2 ranks"); });

// Transformer Engine's fused kernels, its own and FlashAttention's.
constexpr LegalityRule kCoreAttention = Refused(
    "core_attention", kAttentionKind, [](const PlanCase& c) { return IsFp32(c) && !IsUnfused(c.plan); },
    [](const PlanCase&) { return std::string("attention=fused in fp32 (it takes 16 bits)"); });

// Rules that read options of the layout beside later ones are last: a search checks them plan by plan.
constexpr LegalityRule kMegatronRules[] = {
    kCoreSchedule,
    kCoreChunks,
    kCoreMessageParts,
    kCoreGathering,
    kCoreAttention,
    Refused(
        "fsdp_overlap", kZeroOverlaps,
        [](const PlanCase& c) {
          return c.plan.zero_stage >= 2 &&
                 (!c.plan.grad_overlap || (c.plan.zero_stage == 3 && !c.plan.param_overlap));
        },
        [](const PlanCase& c) {
          return fmt::format("zero={} without overlap (its FSDP overlaps what it shards)", c.plan.zero_stage);
        }),
    Refused(
        "fsdp_shard", kShardedZero,
        [](const PlanCase& c) { return c.plan.zero_stage >= 2 && HasPartialShards(c.plan); },
        [](const PlanCase& c) { return fmt::format("zero={} with dp_shard", c.plan.zero_stage); }),
    kCoreMessages,
    kCorePairOfStages};

constexpr LegalityRule kNemoRules[] = {
    kCoreSchedule,
    kCoreChunks,
    kCoreMessageParts,
    kCoreGathering,
    kCoreAttention,
    Refused(
        "equal_stages", kPipelineSplit,
        [](const PlanCase& c) { return c.plan.pp > 1 && c.plan.split != SplitMode::kEven; },
        [](const PlanCase&) { return std::string("split (its stages are equal)"); }),
    Refused(
        "interleaving_in_fp32", kPipelineStages,
        [](const PlanCase& c) { return c.plan.pp > 1 && c.plan.virtual_stages > 1 && IsFp32(c); },
        [](const PlanCase&) { return std::string("interleaving in fp32"); }),
    Refused(
        "sharded_gradients", kZeroOnly, [](const PlanCase& c) { return c.plan.zero_stage > 1; },
        [](const PlanCase& c) {
          return fmt::format("zero={} (zero=1 is its distributed Adam)", c.plan.zero_stage);
        }),
    Refused(
        "states_in_fp32", kZeroOnly, [](const PlanCase& c) { return c.plan.zero_stage == 1 && IsFp32(c); },
        [](const PlanCase&) { return std::string("zero=1 in fp32"); }),
    Refused(
        "partial_shards", kShardedZero, [](const PlanCase& c) { return HasPartialShards(c.plan); },
        [](const PlanCase&) { return std::string("dp_shard"); }),
    Refused(
        "overlapped_replicas", kZeroReduction,
        [](const PlanCase& c) { return c.plan.grad_overlap && c.plan.zero_stage == 0; },
        [](const PlanCase&) { return std::string("grad_overlap=1 without zero=1"); }),
    kCoreMessages,
    kCorePairOfStages};

constexpr LegalityRule kDeepSpeedRules[] = {
    Refused(
        "schedule", kPipelineSchedule,
        [](const PlanCase& c) { return c.plan.pp > 1 && c.plan.schedule != Schedule::kOneFOneB; },
        [](const PlanCase& c) { return SaysSchedule(c, "1f1b"); }),
    Refused(
        "equal_stages", kPipelineSplit,
        [](const PlanCase& c) { return c.plan.pp > 1 && c.plan.split != SplitMode::kEven; },
        [](const PlanCase&) { return std::string("split (it balances stages itself)"); }),
    Refused(
        "tensor_with_pipeline", kTensorPipeline,
        [](const PlanCase& c) { return c.plan.tp > 1 && c.plan.pp > 1; },
        [](const PlanCase&) { return std::string("tp and pp together"); }),
    Refused(
        "tensor_with_parameters", kTensorZero,
        [](const PlanCase& c) { return c.plan.tp > 1 && c.plan.zero_stage == 3; },
        [](const PlanCase&) { return std::string("tp with zero=3"); }),
    Refused(
        "sequence", kTensorSequence, [](const PlanCase& c) { return SplitsSequence(c.plan); },
        [](const PlanCase&) { return std::string("sp=1 (its sequence parallelism is another)"); }),
    Refused(
        "overlapped_replicas", kPipelineReduction,
        [](const PlanCase& c) { return c.plan.grad_overlap && (c.plan.zero_stage < 2 || c.plan.pp > 1); },
        [](const PlanCase&) { return std::string("grad_overlap=1 without zero=2 or 3"); }),
    Refused(
        "overlapped_gathering", kZeroGathering,
        [](const PlanCase& c) { return c.plan.param_overlap && c.plan.zero_stage != 3; },
        [](const PlanCase&) { return std::string("param_overlap=1 without zero=3"); }),
    Refused(
        "partial_shards", kShardedZero,
        [](const PlanCase& c) { return HasPartialShards(c.plan) && c.plan.zero_stage != 3; },
        [](const PlanCase& c) { return fmt::format("dp_shard with zero={}", c.plan.zero_stage); }),
    Refused(
        "messages", kAnyMessages, [](const PlanCase& c) { return c.plan.p2p_overlap; },
        [](const PlanCase&) { return std::string("p2p_overlap=1"); }),
    Refused(
        "selective", kRecomputed, [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; },
        [](const PlanCase&) { return std::string("recompute=selective"); }),
    Refused(
        "full_layers", kRecomputed, [](const PlanCase& c) { return c.plan.recompute_layers > 0; },
        SaysFullLayers),
};

constexpr LegalityRule kTorchtitanRules[] = {
    Refused(
        "schedule", kPipelineSchedule,
        [](const PlanCase& c) { return c.plan.pp > 1 && c.plan.schedule == Schedule::kZeroBubbleH1; },
        [](const PlanCase& c) { return SaysSchedule(c, "gpipe, 1f1b and interleaved"); }),
    Refused(
        "sharded_states", kDataZero,
        [](const PlanCase& c) { return c.plan.dp > 1 && c.plan.zero_stage == 1; },
        [](const PlanCase&) { return std::string("zero=1 (it shards gradients too: zero=2 or 3)"); }),
    Refused(
        "replicas", kReplicas,
        [](const PlanCase& c) {
          return c.plan.dp > 1 && c.plan.zero_stage == 0 && (c.plan.tp > 1 || c.plan.pp > 1);
        },
        [](const PlanCase&) { return std::string("zero=0 of several data ranks with tp or pp"); }),
    Refused(
        "one_data_rank", kMeshAxes,
        [](const PlanCase& c) { return c.plan.dp == 1 && IsBf16(c) && (c.plan.tp > 1 || c.plan.pp > 1); },
        [](const PlanCase&) {
          return std::string("precision=bf16 with tp or pp on one data rank (bf16 comes with its sharding)");
        }),
    Refused(
        "reduction", kDataReduction, [](const PlanCase& c) { return c.plan.dp > 1 && !c.plan.grad_overlap; },
        [](const PlanCase&) { return std::string("grad_overlap=0 (it always overlaps)"); }),
    Refused(
        "gathering", kDataGathering,
        [](const PlanCase& c) { return c.plan.dp > 1 && c.plan.zero_stage >= 2 && !c.plan.param_overlap; },
        [](const PlanCase&) { return std::string("param_overlap=0 (it always overlaps)"); }),
    Refused(
        "sequence", kTensorSequence,
        [](const PlanCase& c) { return c.plan.tp > 1 && !SplitsSequence(c.plan); },
        [](const PlanCase&) { return std::string("tp without sp=1"); }),
    Refused(
        "tokens", kTensorAxis,
        [](const PlanCase& c) { return c.plan.tp > 1 && c.workload.seq_len % (2 * c.plan.tp) != 0; },
        [](const PlanCase& c) {
          return fmt::format("a sequence of {} tokens with tp={} (it must divide by 2 tp)",
                             c.workload.seq_len, c.plan.tp);
        }),
    Refused(
        "messages", kPipelineMessages, [](const PlanCase& c) { return c.plan.pp > 1 && !c.plan.p2p_overlap; },
        [](const PlanCase&) { return std::string("p2p_overlap=0 (its stages send in the background)"); }),
    Refused(
        "attention", kAttentionKind, [](const PlanCase& c) { return IsUnfused(c.plan); },
        [](const PlanCase&) { return std::string("attention=unfused"); }),
    Refused(
        "selective", kRecomputed, [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; },
        [](const PlanCase&) { return std::string("recompute=selective (its own is another)"); }),
    Refused(
        "full_layers", kRecomputed, [](const PlanCase& c) { return c.plan.recompute_layers > 0; },
        SaysFullLayers),
};

}  // namespace

std::span<const LegalityRule> FrameworkRules(std::string_view framework) {
  if (framework == kMegatron) return kMegatronRules;
  if (framework == kNemo) return kNemoRules;
  if (framework == kDeepSpeed) return kDeepSpeedRules;
  if (framework == kTorchtitan) return kTorchtitanRules;
  return {};
}

std::string WhyNotExpressible(std::span<const LegalityRule> rules, const PlanCase& plan) {
  for (const LegalityRule& rule : rules) {
    if (rule.broken(plan)) return rule.explain(plan);
  }
  return "";
}

}  // namespace autocfg
