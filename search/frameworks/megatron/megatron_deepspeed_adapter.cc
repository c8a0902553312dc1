#include <algorithm>
#include <array>
#include <cstddef>

#include "search/frameworks/adapter.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/deepspeed/deepspeed_options.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/megatron/megatron_options.h"
#include "search/frameworks/plan_rules.h"

namespace autocfg {
namespace {

constexpr LegalityRule kMegatronDeepSpeedRules[] = {
    kSumsOfDeepSpeed,
    {kCannot, "schedule", kReads<"pp", "schedule">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.schedule != Schedule::kOneFOneB; },
     [](const PlanCase& c) { return SaysSchedule(c, "1f1b"); }},
    {kCannot, "pipeline_shards", kReads<"pp", "zero">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.zero_stage > 1; },
     [](const PlanCase& c) { return fmt::format("zero={} with pp (it has 0 and 1)", c.plan.zero_stage); }},
    {kCannot, "reduction", kReads<"zero", "grad_overlap">,
     [](const PlanCase& c) { return c.plan.grad_overlap && c.plan.zero_stage < 2; },
     Says<"grad_overlap=1 without zero=2 or 3">},
    {kCannot, "gathering", kReads<"zero", "param_overlap">,
     [](const PlanCase& c) { return c.plan.param_overlap && c.plan.zero_stage < 3; },
     Says<"param_overlap=1 without zero=3">},
    {kCannot, "chunks", kReads<"tp_overlap">, [](const PlanCase& c) { return c.plan.tp_overlap > 1; },
     [](const PlanCase& c) { return fmt::format("tp_overlap={}", c.plan.tp_overlap); }},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; }, SaysRecompute},
};

// A table of both.
template <typename Row, std::size_t... sizes>
constexpr auto JoinedTables(const Row (&... tables)[sizes]) {
  std::array<Row, (sizes + ...)> all{};
  std::size_t at = 0;
  const auto add = [&](const auto& table) {
    for (const Row& row : table) all[at++] = row;
  };
  (add(tables), ...);
  return all;
}
constexpr auto kHarmlessOfBoth =
    JoinedTables(kMegatronDeepSpeedHarmless, kMegatronHarmless, kDeepSpeedHarmless);
constexpr auto kUnmodelledOfBoth =
    JoinedTables(kMegatronDeepSpeedUnmodelled, kMegatronUnmodelled, kDeepSpeedUnmodelled);

constexpr auto kMegatronDeepSpeedSaying = CoreSaying(kMegatronNames, megatron::kZeroStage);

}  // namespace

constexpr FrameworkAdapter kMegatronDeepSpeedAdapter = {
    .target = {kMegatronDeepSpeed, "flags of Megatron-DeepSpeed", "megatron.args", kDeepSpeedVersion,
               [](const ExportedRun&, Refusals&) {}, &WriteMegatronDeepSpeedPlan},
    .exported = false,
    .rules = kMegatronDeepSpeedRules,
    .read = &ReadMegatronDeepSpeed,
    .saying = kMegatronDeepSpeedSaying,
    .harmless = kHarmlessOfBoth,
    .unmodelled = kUnmodelledOfBoth,
    .form = SettingsForm::kFlags,
    .flags = {.markers = megatron::kMarkers, .files = megatron::kConfigFiles},
    .engine = kDeepSpeed,
    .recognizes = [](std::string_view) { return false; },  // a file of Megatron-LM, until its flags are read
    .global_batch = kMegatronNames.global_batch,
};

}  // namespace autocfg
