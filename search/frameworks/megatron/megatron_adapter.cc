#include <algorithm>

#include "search/frameworks/adapter.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/megatron/megatron_options.h"
#include "search/frameworks/megatron/megatron_rules.h"

namespace autocfg {
namespace {

constexpr LegalityRule kMegatronRules[] = {kCoreSchedule,  kCoreChunks,   kCoreMessageParts, kCoreGathering,
                                           kCoreAttention, kFsdpOverlap,  kFsdpPipeline,     kFsdpShard,
                                           kModulesOnly,   kCoreMessages, kCorePairOfStages};

constexpr auto kMegatronSaying = CoreSaying(kMegatronNames, megatron::kShardsStates);

constexpr std::string_view kStageSpellings[] = {
    // The first two are what its writer says.
    megatron::kLayersPerStage,
    megatron::kLayout,
    "--num-virtual-stages-per-pipeline-rank",
    "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers",
    "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split"};
constexpr std::string_view kRecomputeSpellings[] = {kMegatronNames.recompute, "--recompute-activations"};
constexpr std::string_view kModuleSpellings[] = {kMegatronNames.recompute, megatron::kRecomputeModules};
constexpr std::string_view kFsdpSpellings[] = {megatron::kFsdp, "--use-custom-fsdp"};
constexpr std::span<const std::string_view> kMegatronSpellings[] = {kStageSpellings, kRecomputeSpellings,
                                                                    kModuleSpellings, kFsdpSpellings};

}  // namespace

constexpr FrameworkAdapter kMegatronAdapter = {
    .target = {kMegatron, "flags of Megatron-LM, an option a line", "megatron.args", kMegatronVersion,
               &CheckMegatron, &WriteMegatron},
    .rules = kMegatronRules,
    .read = &ReadMegatron,
    .saying = kMegatronSaying,
    .harmless = kMegatronHarmless,
    .unmodelled = kMegatronUnmodelled,
    .form = SettingsForm::kFlags,
    .flags = {.markers = megatron::kMarkers, .files = megatron::kConfigFiles},
    .fork_of = [](const SettingsText& settings) -> const FrameworkAdapter* {
      const bool fork = std::ranges::find(settings.settings, megatron::kDeepSpeedFlag, &Setting::name) !=
                        settings.settings.end();
      return fork ? &kMegatronDeepSpeedAdapter : nullptr;
    },
    .take_log = &TakeMegatronLog,
    .recognizes =
        [](std::string_view text) {
          return IsLogOfSettings(text) ||
                 std::ranges::any_of(megatron::kMarkers,
                                     [&](std::string_view marker) { return text.find(marker) != text.npos; });
        },
    .global_batch = kMegatronNames.global_batch,
    .spellings = kMegatronSpellings,
    .refuses_environment = megatron::kFsdp,
};

}  // namespace autocfg
