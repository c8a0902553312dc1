// gpt-neox: names of its settings that say something of model, workload or plan, and its reader. It trains
// with Megatron-LM's layers and DeepSpeed's engine. Its files are read and changed; no export writes one.
#pragma once

#include <array>
#include <string_view>

#include "search/frameworks/export_target.h"
#include "search/frameworks/run_draft.h"

namespace autocfg {

inline constexpr std::string_view kGptNeox = "gpt-neox";
inline constexpr std::string_view kGptNeoxVersion = "2.0";

// Names have '_' where a file may have '-'.
namespace neox {
inline constexpr std::array<SayingSetting, 2> kAxisSettings = {
    {{"tp", "model_parallel_size"}, {"pp", "pipe_parallel_size"}}};
inline constexpr std::string_view kMicroBatch = "train_micro_batch_size_per_gpu";
inline constexpr std::string_view kMicrobatches = "gradient_accumulation_steps";
inline constexpr std::string_view kGlobalBatch = "train_batch_size";
inline constexpr std::string_view kStage = "zero_optimization.stage";
inline constexpr std::string_view kRecompute = "checkpoint_activations";
inline constexpr std::string_view kSequenceParallel = "sequence_parallel";
inline constexpr std::string_view kAttention = "attention_config";
}  // namespace neox

// The settings that the plan decides. Source: megatron/neox_arguments at ea7aefd8f8e1.
ExportedFile WriteGptNeoxPlan(const ExportedRun& run);
void ReadGptNeox(const ReadingOptions& options, SettingReader& read, RunDraft& run);

}  // namespace autocfg
