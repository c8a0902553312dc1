// torchtitan: names of its options that say something of model, workload or plan, its writer and its reader.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "search/frameworks/export_target.h"
#include "search/frameworks/run_draft.h"

namespace autocfg {

inline constexpr std::string_view kTorchtitan = "torchtitan";
inline constexpr std::string_view kTorchtitanVersion = "v0.2.2";

namespace torchtitan {
inline constexpr std::string_view kModel = "model.name";
inline constexpr std::string_view kLlama3 = "llama3";
inline constexpr std::string_view kFlavor = "model.flavor";
// Its sizes of Llama 3, and the presets of their shapes.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFlavors = {
    {{"8B", "llama3-8b"}, {"70B", "llama3-70b"}, {"405B", "llama3-405b"}}};
inline constexpr std::array<std::pair<Schedule, std::string_view>, 3> kSchedules = {
    {{Schedule::kGPipe, "GPipe"},
     {Schedule::kOneFOneB, "1F1B"},
     {Schedule::kInterleaved, "Interleaved1F1B"}}};
inline constexpr std::string_view kLocalBatch = "training.local_batch_size";
inline constexpr std::string_view kGlobalBatch = "training.global_batch_size";
inline constexpr std::string_view kSeqLen = "training.seq_len";
inline constexpr std::string_view kPrecision = "training.mixed_precision_param";
inline constexpr std::string_view kReplicas = "parallelism.data_parallel_replicate_degree";
inline constexpr std::string_view kShards = "parallelism.data_parallel_shard_degree";
inline constexpr std::string_view kPp = "parallelism.pipeline_parallel_degree";
inline constexpr std::array<SayingSetting, 2> kAxisSettings = {
    {{"tp", "parallelism.tensor_parallel_degree"}, {"pp", kPp}}};
inline constexpr std::string_view kReshard = "parallelism.fsdp_reshard_after_forward";
inline constexpr std::string_view kAlways = "always";
inline constexpr std::string_view kNever = "never";
inline constexpr std::string_view kTpOverlap = "parallelism.enable_async_tensor_parallel";
inline constexpr std::string_view kSchedule = "parallelism.pipeline_parallel_schedule";
inline constexpr std::string_view kMicroBatch = "parallelism.pipeline_parallel_microbatch_size";
inline constexpr std::string_view kStages = "parallelism.module_fqns_per_model_part";
inline constexpr std::string_view kRecompute = "activation_checkpoint.mode";
inline constexpr std::string_view kFullRecompute = "full";
inline constexpr std::string_view kNoRecompute = "none";
}  // namespace torchtitan

// Returns a dense model of a release; nothing for any other name.
std::optional<ModelSpec> TorchtitanModel(std::string_view name, std::string_view flavor);

// TOML, for the sizes of Llama 3. Source: torchtitan/config/job_config.py.
void CheckTorchtitan(const ExportedRun& run, Refusals& refuse);
ExportedFile WriteTorchtitan(const ExportedRun& run);
void ReadTorchtitan(const ReadingOptions& options, SettingReader& read, RunDraft& run);

}  // namespace autocfg
