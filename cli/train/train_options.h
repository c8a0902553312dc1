// The options of `autocfg train` as texts, and the conversion of those of AdamW to the spec that a rank
// takes. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "cli/input/optimizer_choice.h"

namespace CLI {
class App;
}

namespace autocfg::cli {

// The defaults equal those of DefaultOptimizer (proto/convert/trainer_convert.h), in the form that --help
// shows.
struct OptimizerOptions {
  std::string lr = "3e-4", min_lr = "0", lr_schedule = "constant", warmup_steps = "0", weight_decay = "0.1",
              beta1 = "0.9", beta2 = "0.95", adam_eps = "1e-8", clip_norm = "1.0";
};

// Texts are empty if the option is not given and has no default.
struct TrainArgs {
  std::string model, plan, input, global_batch, seq_len, precision, data, device, cluster, init, save,
      checkpoint, save_every, resume, trace, trace_steps, trace_ranks, log, slice;
  std::string seed = "1", steps;
  OptimizerOptions optimizer;
  OptimizerChoice choice;  // --optimizer and --momentum
  bool json = false;
};

// Adds --lr and the other options of AdamW. `options` must outlive the parsing.
void AddOptimizerOptions(CLI::App* verb, OptimizerOptions& options);

// Returns the learning rates, factors and step counts that the texts name. InvalidArgument names the option.
absl::StatusOr<v1::OptimizerSpec> LoadOptimizer(const OptimizerOptions& options);

// Returns a note about options that were given but have no effect; empty if there are none.
std::string UnusedNote(const v1::OptimizerSpec& optimizer);
// Returns a note if the warm-up is longer than the run of so many steps; else an empty text.
std::string WarmupNote(const v1::OptimizerSpec& optimizer, std::int64_t steps);

}  // namespace autocfg::cli
