// AdamW options of `autocfg train` and their conversion to the spec that a rank takes. Not thread-safe.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"

namespace autocfg::cli {

// The defaults equal those of DefaultOptimizer (proto/convert/trainer_convert.h), in the form that --help
// shows.
struct OptimizerOptions {
  std::string lr = "3e-4", min_lr = "0", lr_schedule = "constant", warmup_steps = "0", weight_decay = "0.1",
              beta1 = "0.9", beta2 = "0.95", adam_eps = "1e-8", clip_norm = "1.0";
};

void AddOptimizerOptions(CLI::App* verb, OptimizerOptions& options);

// Errors name the option.
absl::StatusOr<v1::OptimizerSpec> LoadOptimizer(const OptimizerOptions& options);

// Returns a note about options that were given but have no effect; empty if there are none.
std::string UnusedNote(const v1::OptimizerSpec& optimizer);

}  // namespace autocfg::cli
