// MaxText: names of its settings that say something of model, workload or plan, and its reader. Its files are
// read and changed; no export writes one.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "search/frameworks/export_target.h"
#include "search/frameworks/run_draft.h"

namespace autocfg {

inline constexpr std::string_view kMaxText = "maxtext";
inline constexpr std::string_view kMaxTextVersion = "0.2";

namespace maxtext {
inline constexpr std::string_view kModel = "model_name";
inline constexpr std::string_view kBatch = "per_device_batch_size";
inline constexpr std::string_view kMicrobatches = "gradient_accumulation_steps";
inline constexpr std::string_view kSeqLen = "max_target_length";
inline constexpr std::string_view kTensor = "ici_tensor_parallelism";
inline constexpr std::string_view kShards = "ici_fsdp_parallelism";
inline constexpr std::string_view kReplicas = "dcn_data_parallelism";
inline constexpr std::string_view kRecompute = "remat_policy";
inline constexpr std::string_view kFullRecompute = "full";
inline constexpr std::string_view kNoRecompute = "minimal_with_context";
}  // namespace maxtext

// The settings that the plan decides. Source: src/maxtext/configs/base.yml at e591f30cbbf2.
ExportedFile WriteMaxTextPlan(const ExportedRun& run);
// Sets the model by its sizes.
void ReadMaxTextShape(const ReadingOptions& options, SettingReader& read, ModelSpec& model);
void ReadMaxText(const ReadingOptions& options, SettingReader& read, RunDraft& run);

}  // namespace autocfg
