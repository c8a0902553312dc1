// What Megatron-LM and NeMo 1.x share: both train with Megatron's core. Plain values; pure functions.
#pragma once

#include <array>
#include <string_view>

#include "search/frameworks/plan_rules.h"
#include "search/frameworks/refusals.h"
#include "search/frameworks/run_draft.h"
#include "search/frameworks/said_options.h"

namespace autocfg {

// Options that Megatron-LM and NeMo 1.x share, by the names of each.
struct CoreNames {
  std::string_view layers, hidden, ffn_hidden, heads, kv_heads, head_dim;
  std::string_view seq_len, max_seq_len;
  std::string_view norm, layer_norm, rms_norm;  // the option, and its values
  bool norm_in_any_case;
  std::string_view norm_eps;
  std::string_view position, rotary_base, rotary_share, rotary_factor;
  std::string_view qk_norm, vocab_multiple, init_std;
  std::string_view hidden_dropout, attention_dropout;
  std::array<SayingSetting, 2> axes;
  std::string_view sp, micro_batch, global_batch;
  std::string_view recompute, recompute_method, recompute_layers;
  std::string_view attention, tp_overlap;
  std::string_view context_parallel, expert_parallel;  // never written
  bool selective_takes_method = false;                 // and leaves it out
};

// Values that both have.
inline constexpr std::string_view kLearnedPositions = "learned_absolute";
inline constexpr std::string_view kRotaryPositions = "rope";
inline constexpr std::string_view kFullRecompute = "full";
inline constexpr std::string_view kSelectiveRecompute = "selective";
inline constexpr std::string_view kUniformRecompute = "uniform";
inline constexpr std::string_view kBlockRecompute = "block";
inline constexpr std::string_view kUnfusedAttention = "unfused";
inline constexpr std::string_view kFlashAttention = "flash";
inline constexpr std::string_view kChosenLater = "auto";  // by the framework, or by what launches it
inline constexpr std::string_view kNoPositions = "none";
inline constexpr std::string_view kAlibiPositions = "alibi";  // read, not written

// Returns the settings that say options of the plan; `zero`: the one that shards states.
constexpr std::array<SayingSetting, 7> CoreSaying(const CoreNames& names, std::string_view zero) {
  return {{names.axes[0],
           names.axes[1],
           {"mbs", names.micro_batch},
           {"recompute", names.recompute},
           {"attention", names.attention},
           {"sp", names.sp},
           {"zero", zero}}};
}

// The core has biases in all linear layers, in that of q, k and v alone, or in none.
enum class CoreBiases { kAll, kQkvOnly, kNone, kOther };
CoreBiases CoreBiasesOf(const ModelSpec& model);

// The core divides positions by a factor, which is the linear scaling of their frequencies.
bool HasLinearScaling(const ModelSpec& model);

// Refuses what the core cannot express of the model, its kinds of layers aside. Each framework adds its
// own.
void CheckCoreModel(const ModelSpec& model, Refusals& refuse);

// Read the options of `names`. The plan needs dp and the precision.
void ReadCoreModel(const CoreNames& names, SettingReader& read, RunDraft& run);
void ReadRotaryPositions(const CoreNames& names, SettingReader& read, ModelSpec& model);
void ReadCorePlan(const CoreNames& names, const ReadingOptions& options, SettingReader& read, RunDraft& run);

// Recomputes the parts, as `setting` says. Leaves out the scores of attention, with a note, if fused
// attention keeps none.
void SetSelective(const Setting& setting, LayerParts parts, SettingReader& read, RunDraft& run);

// Recomputation, once the stages are known. `selected`: the parts that the granularity selective recomputes.
// `otherwise`: the granularity of a file that names none.
void ReadCoreRecompute(const CoreNames& names, LayerParts selected, SettingReader& read, RunDraft& run,
                       std::string_view otherwise = "none");

// Reads which cross-entropy trains. `otherwise`: whether it is fused if the file does not say it. The fused
// one of Megatron's core ("native") keeps another copy of the logits in fp32
// (megatron/core/fusions/fused_cross_entropy.py). That of Transformer Engine ("te") writes the gradient over
// the logits.
inline constexpr double kFusedLogitBytes = 8;
void ReadCoreLoss(std::string_view fused, std::string_view implementation, bool otherwise,
                  SettingReader& read, RunDraft& run);

// Recomputes all layers, of which each `layers` keep one input.
void SetUniformRecompute(std::int64_t layers, RunDraft& run);

// What the core cannot express of a plan.
inline constexpr LegalityRule kCoreSchedule = {
    kCannot, "core_schedule", kReads<"pp", "schedule">,
    [](const PlanCase& c) {
      return c.plan.pp > 1 && c.plan.schedule != Schedule::kOneFOneB &&
             c.plan.schedule != Schedule::kInterleaved;
    },
    [](const PlanCase& c) { return SaysSchedule(c, "1f1b and interleaved"); }};
inline constexpr LegalityRule kCoreChunks = {
    kCannot, "core_chunks", kReads<"tp_overlap", "sp">,
    [](const PlanCase& c) { return c.plan.tp_overlap > 1 && !c.plan.sequence_parallel; },
    [](const PlanCase& c) { return fmt::format("tp_overlap={} without sp=1", c.plan.tp_overlap); }};
inline constexpr LegalityRule kCoreMessageParts = {
    kCannot, "core_message_parts", kReads<"tp", "sp", "scatter_gather">,
    [](const PlanCase& c) { return c.plan.scatter_gather && !SplitsSequence(c.plan); },
    Says<"scatter_gather=1 without sp=1">};
inline constexpr LegalityRule kCoreGathering = {
    kCannot, "core_gathering", kReads<"grad_overlap", "param_overlap">,
    [](const PlanCase& c) { return c.plan.param_overlap && !c.plan.grad_overlap; },
    Says<"param_overlap=1 without grad_overlap=1">};
inline constexpr LegalityRule kCoreMessages = {
    kCannot, "core_messages", kReads<"p2p_overlap", "vpp">,
    [](const PlanCase& c) { return c.plan.p2p_overlap && c.plan.virtual_stages == 1; },
    Says<"p2p_overlap=1 without interleaving">};
inline constexpr LegalityRule kCorePairOfStages = {
    kCannot, "core_pair_of_stages", kReads<"p2p_overlap", "vpp", "pp">,
    [](const PlanCase& c) { return !c.plan.p2p_overlap && c.plan.virtual_stages > 1 && c.plan.pp <= 2; },
    Says<"p2p_overlap=0 of an interleaved pipeline of 2 ranks">};

// Transformer Engine's fused kernels, its own and FlashAttention's.
inline constexpr LegalityRule kCoreAttention = {
    kCannot, "core_attention", kReads<"attention">,
    [](const PlanCase& c) { return IsFp32(c) && !IsUnfused(c.plan); },
    Says<"attention=fused in fp32 (it takes 16 bits)">};

}  // namespace autocfg
