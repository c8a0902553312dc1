// Accelerate of Hugging Face: names of the settings of its files (accelerate config) that say something of
// workload or plan, and their reader. Model and batch are the script's. No export writes such a file.
#pragma once

#include <string_view>

#include "search/frameworks/export_target.h"
#include "search/frameworks/run_draft.h"

namespace autocfg {

inline constexpr std::string_view kAccelerate = "fsdp";  // what its files mostly say
inline constexpr std::string_view kAccelerateVersion = "1.12";

namespace accelerate {
inline constexpr std::string_view kKind = "distributed_type";
inline constexpr std::string_view kProcesses = "num_processes";
inline constexpr std::string_view kMachines = "num_machines";
inline constexpr std::string_view kStrategy = "fsdp_config.fsdp_sharding_strategy";
inline constexpr std::string_view kReshard = "fsdp_config.fsdp_reshard_after_forward";
inline constexpr std::string_view kRecompute = "fsdp_config.fsdp_activation_checkpointing";
inline constexpr std::string_view kStage = "deepspeed_config.zero_stage";
inline constexpr std::string_view kTp = "parallelism_config.parallelism_config_tp_size";
}  // namespace accelerate

// The settings that the plan decides, of FSDP. Source: accelerate/commands/config and utils/dataclasses.py.
ExportedFile WriteAcceleratePlan(const ExportedRun& run);
void ReadAccelerate(const ReadingOptions& options, SettingReader& read, RunDraft& run);

}  // namespace autocfg
