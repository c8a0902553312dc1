// nanotron: names of its settings that say something of model, workload or plan, and its reader. Its files
// are read and changed; no export writes one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "search/frameworks/export_target.h"
#include "search/frameworks/run_draft.h"

namespace autocfg {

inline constexpr std::string_view kNanotron = "nanotron";
inline constexpr std::string_view kNanotronVersion = "0.5";

namespace nanotron {
inline constexpr std::string_view kDp = "parallelism.dp";
inline constexpr std::array<SayingSetting, 2> kAxisSettings = {
    {{"tp", "parallelism.tp"}, {"pp", "parallelism.pp"}}};
inline constexpr std::string_view kSchedule = "parallelism.pp_engine";
inline constexpr std::string_view kTensorMode = "parallelism.tp_mode";
inline constexpr std::string_view kSplitsSequence = "REDUCE_SCATTER";
inline constexpr std::string_view kSumsOnly = "ALL_REDUCE";
inline constexpr std::string_view kRecompute = "parallelism.recompute_layer";
inline constexpr std::string_view kZero = "optimizer.zero_stage";
inline constexpr std::string_view kMicroBatch = "tokens.micro_batch_size";
inline constexpr std::string_view kMicrobatches = "tokens.batch_accumulation_per_replica";
inline constexpr std::string_view kSeqLen = "tokens.sequence_length";
}  // namespace nanotron

// The settings that the plan decides. Source: nanotron/config at 2411b022a75f.
ExportedFile WriteNanotronPlan(const ExportedRun& run);
void ReadNanotron(const ReadingOptions& options, SettingReader& read, RunDraft& run);

}  // namespace autocfg
