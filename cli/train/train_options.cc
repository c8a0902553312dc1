#include "cli/train/train_options.h"

#include <cmath>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "cli/input/option_values.h"
#include "fmt/format.h"

namespace autocfg::cli {

void AddOptimizerOptions(CLI::App* verb, OptimizerOptions& options) {
  verb->add_option("--lr", options.lr, "learning rate")->capture_default_str();
  verb->add_option("--min-lr", options.min_lr, "final rate of the cosine schedule")->capture_default_str();
  verb->add_option("--lr-schedule", options.lr_schedule, "constant or cosine")->capture_default_str();
  verb->add_option("--warmup-steps", options.warmup_steps, "steps over which the rate rises")
      ->capture_default_str();
  verb->add_option("--weight-decay", options.weight_decay,
                   "weight decay; AdamW decouples it from the gradient, SGD adds it to the gradient")
      ->capture_default_str();
  verb->add_option("--beta1", options.beta1, "AdamW beta1")->capture_default_str();
  verb->add_option("--beta2", options.beta2, "AdamW beta2")->capture_default_str();
  verb->add_option("--adam-eps", options.adam_eps, "AdamW epsilon")->capture_default_str();
  verb->add_option("--clip-norm", options.clip_norm, "bound of the gradient norm; 0 = none")
      ->capture_default_str();
}

absl::StatusOr<v1::OptimizerSpec> LoadOptimizer(const OptimizerOptions& options) {
  struct Real {
    const char* name;
    const std::string* text;
    double most;
    void (v1::OptimizerSpec::*set)(double);
  };
  // The upper bounds do not exceed what a rank accepts (trainer/config/train_config.cc).
  const double below_one = std::nextafter(1.0, 0.0);
  const Real reals[] = {{"--lr", &options.lr, 1e6, &v1::OptimizerSpec::set_lr},
                        {"--min-lr", &options.min_lr, 1e6, &v1::OptimizerSpec::set_min_lr},
                        {"--weight-decay", &options.weight_decay, 1e6, &v1::OptimizerSpec::set_weight_decay},
                        {"--beta1", &options.beta1, below_one, &v1::OptimizerSpec::set_beta1},
                        {"--beta2", &options.beta2, below_one, &v1::OptimizerSpec::set_beta2},
                        {"--adam-eps", &options.adam_eps, 1, &v1::OptimizerSpec::set_adam_eps},
                        {"--clip-norm", &options.clip_norm, 1e9, &v1::OptimizerSpec::set_clip_norm}};
  v1::OptimizerSpec optimizer;
  for (const auto& real : reals) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto value, ParseReal(real.name, *real.text, 0, real.most));
    (optimizer.*real.set)(value);
  }
  if (options.lr_schedule != "constant" && options.lr_schedule != "cosine") {
    return absl::InvalidArgumentError(fmt::format(
        "--lr-schedule: unknown schedule '{}'; expected constant or cosine", options.lr_schedule));
  }
  if (optimizer.min_lr() > optimizer.lr()) {
    return absl::InvalidArgumentError(fmt::format(
        "--min-lr: {} is above --lr {}, from which the cosine falls to it; give no more than --lr",
        options.min_lr, options.lr));
  }
  optimizer.set_lr_schedule(options.lr_schedule);
  AUTOCFG_ASSIGN_OR_RETURN(const auto warmup,
                           ParseWhole("--warmup-steps", options.warmup_steps, 0, 1'000'000'000));
  optimizer.set_warmup_steps(warmup);
  return optimizer;
}

std::string UnusedNote(const v1::OptimizerSpec& optimizer) {
  if (optimizer.min_lr() == 0 || optimizer.lr_schedule() != "constant") return "";
  return "--min-lr has no effect with --lr-schedule constant; give cosine, or leave it out";
}

std::string WarmupNote(const v1::OptimizerSpec& optimizer, std::int64_t steps) {
  if (optimizer.warmup_steps() <= steps) return "";
  return fmt::format(
      "--warmup-steps: the warm-up of {} steps is longer than the run of {}, which never reaches --lr",
      optimizer.warmup_steps(), steps);
}

}  // namespace autocfg::cli
