#include "search/frameworks/adapter.h"
#include "search/frameworks/nanotron/nanotron.h"
#include "search/frameworks/plan_rules.h"
#include "search/plan/engine_stages/weighted_stages.h"

namespace autocfg {
namespace {

// Whether the stages are other ones than nanotron makes: no split but a list says any (ResolveSplit).
bool HasOtherStages(const PlanCase& c) {
  return SplitsDepth(c.plan) && c.plan.split == SplitMode::kExplicit &&
         c.plan.split_layers != WithALayerEach(StagesByWeight(c.model, c.plan.pp));
}

constexpr LegalityRule kNanotronRules[] = {
    kWholeKvHeads,
    {kCannot, "schedule", kReads<"pp", "schedule">,
     [](const PlanCase& c) {
       return SplitsDepth(c.plan) && c.plan.schedule != Schedule::kGPipe &&
              c.plan.schedule != Schedule::kOneFOneB;
     },
     [](const PlanCase& c) { return SaysSchedule(c, "gpipe and 1f1b"); }},
    {kCannot, "sharded_states", kReads<"zero">, [](const PlanCase& c) { return c.plan.zero_stage > 1; },
     [](const PlanCase& c) { return fmt::format("zero={} (it has 0 and 1)", c.plan.zero_stage); }},
    {kCannot, "partial_shards", kReads<"zero", "dp_shard", "dp">,
     [](const PlanCase& c) { return HasPartialShards(c.plan); }, Says<"dp_shard">},
    {kCannot, "reduction", kReads<"dp", "grad_overlap">,
     [](const PlanCase& c) { return BatchRanks(c.plan) > 1 && !c.plan.grad_overlap; },
     Says<"grad_overlap=0 (it reduces gradients while the backward runs)">},
    {kCannot, "gathering", kReads<"param_overlap">, [](const PlanCase& c) { return c.plan.param_overlap; },
     Says<"param_overlap=1">},
    {kCannot, "chunks", kReads<"tp_overlap">, [](const PlanCase& c) { return c.plan.tp_overlap > 1; },
     [](const PlanCase& c) { return fmt::format("tp_overlap={}", c.plan.tp_overlap); }},
    {kCannot, "messages", kReads<"p2p_overlap">, [](const PlanCase& c) { return c.plan.p2p_overlap; },
     Says<"p2p_overlap=1">},
    {kCannot, "message_parts", kReads<"scatter_gather">,
     [](const PlanCase& c) { return c.plan.scatter_gather; }, Says<"scatter_gather=1">},
    {kCannot, "attention", kReads<"attention">, [](const PlanCase& c) { return IsUnfused(c.plan); },
     Says<"attention=unfused">},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; }, SaysRecompute},
    {kCannot, "full_layers", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute_layers > 0; }, SaysRecompute},
    {kCannot, "stages", kReads<"pp", "split">, HasOtherStages,
     Says<"these layers of the stages (it balances their products)">},
};

constexpr HarmlessSetting kNanotronHarmless[] = {
    {"lighteval.*", "it is of evaluation"},
    {"data_stages", "it is of data"},
    {"checkpoints.* s3_upload.*", kOfCheckpoints},
    {"model.model_config.pretraining_tp", "the framework ignores it"},
};

constexpr UnmodelledSetting kNanotronUnmodelled[] = {
    {"model.model_config.moe_config model.model_config.moe_config.* model.model_config.moe_num_experts "
     "model.model_config.num_experts model.model_config.is_llamoe_config",
     kNoExperts},
    {"model.model_config.is_mamba_config", kNoOtherLayers},
    {"model.model_config.is_starcoder2_config", "layers of StarCoder 2 are not modelled"},
    {"model.model_config.ring_attn_heads_k_stride", "context parallelism is not modelled"},
    {"model.fp8 model.fp8.* fp8.*", "fp8 of nanotron is not modelled"},
};

constexpr SayingSetting kNanotronSaying[] = {
    nanotron::kAxisSettings[0],          nanotron::kAxisSettings[1],        {"dp", nanotron::kDp},
    {"mbs", nanotron::kMicroBatch},      {"sp", nanotron::kTensorMode},     {"zero", nanotron::kZero},
    {"recompute", nanotron::kRecompute}, {"schedule", nanotron::kSchedule},
};

}  // namespace

constexpr FrameworkAdapter kNanotronAdapter = {
    .target = {kNanotron, "YAML of nanotron", "nanotron.yaml", kNanotronVersion,
               [](const ExportedRun&, Refusals&) {}, &WriteNanotronPlan},
    .exported = false,
    .rules = kNanotronRules,
    .read = &ReadNanotron,
    .saying = kNanotronSaying,
    .harmless = kNanotronHarmless,
    .unmodelled = kNanotronUnmodelled,
    .form = SettingsForm::kYaml,
    .recognizes =
        [](std::string_view text) {
          return HasLineThatBegins(text, "parallelism:") &&
                 (text.find("model_config:") != text.npos || text.find("pp_engine:") != text.npos);
        },
};

}  // namespace autocfg
