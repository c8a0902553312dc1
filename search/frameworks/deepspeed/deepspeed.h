// DeepSpeed: names of its options that say something of model, workload or plan, its writer and its reader.
#pragma once

#include <array>
#include <string_view>

#include "search/frameworks/export_target.h"
#include "search/frameworks/run_draft.h"

namespace autocfg {

inline constexpr std::string_view kDeepSpeed = "deepspeed";
inline constexpr std::string_view kDeepSpeedVersion = "0.19";

namespace deepspeed {
inline constexpr std::string_view kGlobalBatch = "train_batch_size";
inline constexpr std::string_view kMicroBatch = "train_micro_batch_size_per_gpu";
inline constexpr std::string_view kMicrobatches = "gradient_accumulation_steps";
inline constexpr std::string_view kStage = "zero_optimization.stage";
inline constexpr std::string_view kGradOverlap = "zero_optimization.overlap_comm";
inline constexpr std::string_view kPrefetch = "zero_optimization.stage3_prefetch_bucket_size";
inline constexpr std::string_view kShards = "zero_optimization.mics_shard_size";
inline constexpr std::string_view kSums = "data_types.grad_accum_dtype";
inline constexpr std::string_view kTp = "tensor_parallel.autotp_size";
inline constexpr std::string_view kTpOverlap = "tensor_parallel.tp_overlap_comm";
inline constexpr std::string_view kPp = "pipeline.stages";
inline constexpr std::array<SayingSetting, 2> kAxisSettings = {{{"tp", kTp}, {"pp", kPp}}};
inline constexpr std::string_view kReduceBucket = "zero_optimization.reduce_bucket_size";
inline constexpr std::string_view kGatherBucket = "zero_optimization.allgather_bucket_size";
inline constexpr std::string_view kUpdatedAtOnce = "zero_optimization.sub_group_size";
inline constexpr std::string_view kRecompute = "pipeline.activation_checkpoint_interval";
inline constexpr std::string_view kChosenLater = "auto";  // by the Trainer of Hugging Face
}  // namespace deepspeed

// JSON, which says nothing of the model: the user's script builds that. Source: deepspeed/runtime/config.py
// at 029f12b3c6b9, zero/config.py at 1b88ac366fc9.
void CheckDeepSpeed(const ExportedRun& run, Refusals& refuse);
ExportedFile WriteDeepSpeed(const ExportedRun& run);
// Puts what the options of Hugging Face's Trainer say in place of "auto".
void FillInAutos(const std::vector<LaunchWord>& words, SettingsText& settings);
void ReadDeepSpeed(const ReadingOptions& options, SettingReader& read, RunDraft& run);
// Sets the stage of ZeRO, its overlap and its shards. Needs dp and pp.
void ReadDeepSpeedZero(SettingReader& read, RunDraft& run);
// Sets the types of the run, of its gradients and states. Needs the stage of ZeRO and pp.
void ReadDeepSpeedPrecision(SettingReader& read, RunDraft& run);
// Sets the type in which gradients are summed, for all who train with DeepSpeed. Without ZeRO its optimizer
// for bf16 needs sums in fp32; ZeRO's own sums in the type of the run (engine.py, get_data_types). Needs the
// stage of ZeRO and pp.
void ReadDeepSpeedSums(bool bf16, bool fp16, SettingReader& read, RunDraft& run);
// Sets what its buckets of reductions and gathers take, of two bytes an element, and how many elements ZeRO 3
// updates at a time. The Trainer of Hugging Face makes a bucket that is auto of H^2 elements. Needs the model
// and the stage of ZeRO.
void ReadDeepSpeedBuckets(SettingReader& read, RunDraft& run);

}  // namespace autocfg
