// The writer of each target's file, with the release whose options and checks it follows. All require a
// legal plan in canonical form with a definite split. They return FailedPrecondition with all that the target
// cannot express. Pure, thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "search/frameworks/export_target.h"

namespace autocfg {

// Flags of Megatron-LM's pretrain_gpt.py. Source: megatron/training/arguments.py at 000c4ac24f61.
inline constexpr std::string_view kMegatronVersion = "core 0.15";
absl::StatusOr<ExportedFile> WriteMegatron(const ExportedRun& run);

// YAML of NeMo 1.x's megatron_gpt_pretraining.py; NeMo 2.x is configured in Python.
inline constexpr std::string_view kNemoVersion = "1.23";
absl::StatusOr<ExportedFile> WriteNemo(const ExportedRun& run);

// DeepSpeed's JSON, which says nothing of the model: the user's script builds that. Source:
// deepspeed/runtime/config.py at 029f12b3c6b9, zero/config.py at 1b88ac366fc9.
inline constexpr std::string_view kDeepSpeedVersion = "0.19";
absl::StatusOr<ExportedFile> WriteDeepSpeed(const ExportedRun& run);

// torchtitan's TOML, for the sizes of Llama 3. Source: torchtitan/config/job_config.py.
inline constexpr std::string_view kTorchtitanVersion = "v0.2.2";
absl::StatusOr<ExportedFile> WriteTorchtitan(const ExportedRun& run);

// What `autocfg train --input` and `predict --input` take (docs/formats.md, "best.json").
absl::StatusOr<ExportedFile> WriteOwnForm(const ExportedRun& run);

}  // namespace autocfg
