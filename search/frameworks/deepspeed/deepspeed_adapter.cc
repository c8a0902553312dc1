#include "search/frameworks/adapter.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/deepspeed/deepspeed_options.h"
#include "search/frameworks/plan_rules.h"

namespace autocfg {
namespace {

constexpr LegalityRule kDeepSpeedRules[] = {
    kWholeKvHeads,
    {kCannot, "schedule", kReads<"pp", "schedule">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.schedule != Schedule::kOneFOneB; },
     [](const PlanCase& c) { return SaysSchedule(c, "1f1b"); }},
    {kCannot, "equal_stages", kReads<"pp", "split">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.split != SplitMode::kEven; },
     Says<"split (it balances stages itself)">},
    {kCannot, "tensor_with_pipeline", kReads<"tp", "pp">,
     [](const PlanCase& c) { return SplitsLayers(c.plan) && SplitsDepth(c.plan); },
     Says<"tp and pp together">},
    {kCannot, "tensor_with_parameters", kReads<"tp", "zero">,
     [](const PlanCase& c) { return SplitsLayers(c.plan) && c.plan.zero_stage == 3; },
     Says<"tp with zero=3">},
    {kCannot, "sharded_pipeline", kReads<"zero", "pp">,
     [](const PlanCase& c) { return c.plan.zero_stage >= 2 && SplitsDepth(c.plan); },
     Says<"zero=2 and 3 with pp (its pipeline refuses them)">},
    kSumsOfDeepSpeed,
    {kCannot, "sequence", kReads<"tp", "sp">, [](const PlanCase& c) { return SplitsSequence(c.plan); },
     Says<"sp=1 (its sequence parallelism is another)">},
    {kCannot, "overlapped_replicas", kReads<"zero", "pp", "grad_overlap">,
     [](const PlanCase& c) { return c.plan.grad_overlap && (c.plan.zero_stage < 2 || SplitsDepth(c.plan)); },
     Says<"grad_overlap=1 without zero=2 or 3">},
    {kCannot, "overlapped_gathering", kReads<"zero", "param_overlap">,
     [](const PlanCase& c) { return c.plan.param_overlap && c.plan.zero_stage != 3; },
     Says<"param_overlap=1 without zero=3">},
    {kCannot, "partial_shards", kReads<"zero", "dp_shard", "dp">,
     [](const PlanCase& c) { return HasPartialShards(c.plan) && c.plan.zero_stage != 3; },
     [](const PlanCase& c) { return fmt::format("dp_shard with zero={}", c.plan.zero_stage); }},
    {kCannot, "messages", kReads<"p2p_overlap">, [](const PlanCase& c) { return c.plan.p2p_overlap; },
     Says<"p2p_overlap=1">},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; }, SaysRecompute},
    {kCannot, "full_layers", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute_layers > 0; }, SaysRecompute},
};

constexpr SayingSetting kDeepSpeedSaying[] = {
    deepspeed::kAxisSettings[0],          deepspeed::kAxisSettings[1], {"mbs", deepspeed::kMicroBatch},
    {"recompute", deepspeed::kRecompute}, {"zero", deepspeed::kStage},
};

}  // namespace

constexpr FrameworkAdapter kDeepSpeedAdapter = {
    .target = {kDeepSpeed, "JSON of DeepSpeed, without the model", "deepspeed.json", kDeepSpeedVersion,
               &CheckDeepSpeed, &WriteDeepSpeed},
    .rules = kDeepSpeedRules,
    .read = &ReadDeepSpeed,
    .saying = kDeepSpeedSaying,
    .harmless = kDeepSpeedHarmless,
    .unmodelled = kDeepSpeedUnmodelled,
    .form = SettingsForm::kJson,
    .take_launch = &FillInAutos,
    .recognizes =
        [](std::string_view text) {
          const auto has = [&](std::string_view key) {
            return text.find(fmt::format("\"{}\"", key)) != text.npos;
          };
          const bool own = has("best") && has("model");
          const bool neox = has("pipe_parallel_size") || has("pipe-parallel-size");
          return !own && !neox &&
                 (has(deepspeed::kGlobalBatch) || has(deepspeed::kMicroBatch) || has("zero_optimization"));
        },
    .global_batch = deepspeed::kGlobalBatch,
    .script_says =
        [](std::string_view option, const ParallelPlan& plan) {
          return option == "attention" || (option == "recompute" && !SplitsDepth(plan));
        },
};

}  // namespace autocfg
