#include "cli/input/optimizer_choice.h"

#include <cmath>

#include "base/status_macros.h"
#include "cli/input/option_values.h"
#include "fmt/format.h"

namespace autocfg::cli {

void AddOptimizerChoice(CLI::App* verb, OptimizerChoice& choice) {
  verb->add_option("--optimizer", choice.name,
                   "adamw (default), sgd, or predicted only: adafactor, lion, muon, adamw8bit");
  verb->add_option("--momentum", choice.momentum, "momentum of sgd (default: 0)");
}

absl::StatusOr<std::optional<double>> MomentumOf(const OptimizerChoice& choice) {
  if (choice.momentum.empty()) return std::nullopt;
  AUTOCFG_ASSIGN_OR_RETURN(const auto momentum,
                           ParseReal("--momentum", choice.momentum, 0, std::nextafter(1.0, 0.0)));
  return momentum;
}

absl::Status ApplyOptimizer(const OptimizerChoice& choice, Workload& workload) {
  if (choice.name.empty() && choice.momentum.empty()) return absl::OkStatus();
  AUTOCFG_ASSIGN_OR_RETURN(const auto momentum, MomentumOf(choice));
  const std::string name = choice.name.empty() ? std::string(Name(workload.optimizer.kind)) : choice.name;
  return OfOption(SetOptimizer(name, momentum, workload));
}

std::string OptimizerOptionsText(const Workload& workload) {
  if (workload.optimizer == Optimizer{}) return "";
  std::string text = fmt::format(" --optimizer {}", Name(workload.optimizer.kind));
  if (workload.optimizer.momentum != 0) text += fmt::format(" --momentum {}", workload.optimizer.momentum);
  return text;
}

}  // namespace autocfg::cli
