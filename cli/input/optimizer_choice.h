// The options that choose the optimizer of a run: --optimizer and --momentum.
#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "search/plan/workload.h"

namespace autocfg::cli {

struct OptimizerChoice {
  std::string name, momentum;
};

void AddOptimizerChoice(CLI::App* verb, OptimizerChoice& choice);

// Returns the momentum; empty if it was not given. Errors name the option.
absl::StatusOr<std::optional<double>> MomentumOf(const OptimizerChoice& choice);

// Sets the workload's optimizer (SetOptimizer), unless neither option was given. Errors name the option.
absl::Status ApplyOptimizer(const OptimizerChoice& choice, Workload& workload);

// Returns the options as words of a command line that say the workload's optimizer, with a blank before each;
// empty for AdamW.
std::string OptimizerOptionsText(const Workload& workload);

}  // namespace autocfg::cli
