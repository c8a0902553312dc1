#include "cli/input/training_options.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/input/option_values.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

constexpr double kMostTokens = 1e18;

// The options, the size of a bare number in the base unit of the quantity, and the bounds of the value there.
struct Term {
  std::string_view name;
  base::Quantity quantity;
  std::string TrainingOptions::*text;
  double least, most;
  double unit = 1;
};
constexpr Term kTokensTerm = {"--tokens", base::Quantity::kTokens, &TrainingOptions::tokens, 1, kMostTokens};
constexpr Term kPriceTerm = {"--price-per-gpu-hour", base::Quantity::kPrice,
                             &TrainingOptions::price_per_gpu_hour, 1e-9, 1e9};
constexpr Term kMtbfTerm = {
    "--mtbf-hours", base::Quantity::kSeconds, &TrainingOptions::mtbf_hours, 1e-6 * 3600, 1e9 * 3600, 3600};
constexpr Term kCheckpointTerm = {"--checkpoint-seconds", base::Quantity::kSeconds,
                                  &TrainingOptions::checkpoint_seconds, 1e-6, 1e6};
constexpr Term kRestartTerm = {"--restart-seconds", base::Quantity::kSeconds,
                               &TrainingOptions::restart_seconds, 0, 1e6};

// Reads an option into `value`, which stays empty if the option is not given.
absl::Status Load(const Term& term, const TrainingOptions& options, std::optional<double>& value) {
  const std::string& text = options.*term.text;
  if (text.empty()) return absl::OkStatus();
  AUTOCFG_ASSIGN_OR_RETURN(
      value, term.quantity == base::Quantity::kTokens
                 ? ParseTokens(term.name, text)
                 : ParseWithUnit(term.name, term.quantity, text, term.least, term.most, term.unit));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> ParseTokens(std::string_view name, std::string_view text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto tokens, ParseWithUnit(name, kTokensTerm.quantity, text,
                                                            kTokensTerm.least, kTokensTerm.most));
  // A decimal times its unit is rounded: 1.005k is 1004.9999999999999.
  const double whole = std::round(tokens);
  if (std::abs(tokens - whole) <= std::numeric_limits<double>::epsilon() * whole) return whole;
  return absl::InvalidArgumentError(
      fmt::format("{}: invalid value '{}'; expected a whole number from {} to {}, such as {}", name,
                  base::Printable(text), kTokensTerm.least, kTokensTerm.most,
                  base::QuantityExamples(kTokensTerm.quantity)));
}

std::vector<std::string> UnitNotes(const TrainingOptions& options) {
  std::vector<std::string> notes;
  const std::string& price = options.price_per_gpu_hour;
  if (!base::HasUnit(price)) {
    if (const auto value = base::ParseQuantity(kPriceTerm.quantity, price); value.ok())
      notes.push_back(
          fmt::format("{}: {}", kPriceTerm.name, base::QuantityText(kPriceTerm.quantity, *value)));
  }
  for (const Term& term : {kTokensTerm, kPriceTerm, kMtbfTerm, kCheckpointTerm, kRestartTerm})
    AddUnitNote(term.name, term.quantity, options.*term.text, notes);
  return notes;
}

void AddTrainingOptions(CLI::App* verb, TrainingOptions& options) {
  verb->add_option(
      "--tokens", options.tokens,
      "tokens of the whole run, such as 300e9, 300B or 1.5T (k is 1000): how many days it takes");
  verb->add_option("--price-per-gpu-hour", options.price_per_gpu_hour,
                   "what the run costs, in any currency, such as 2.10, or '$2.10' in quotes (a shell "
                   "expands $2)");
  verb->add_option("--mtbf-hours", options.mtbf_hours,
                   "mean time between failures of one node: how failures lengthen the run, and how often to "
                   "write a checkpoint");
  verb->add_option(
      "--checkpoint-seconds", options.checkpoint_seconds,
      fmt::format("time to write a checkpoint, while training stands still (default: the model's "
                  "state at {:g} GB/s a node)",
                  kStorageBytesPerNodeSecond / 1e9));
  verb->add_option(
      "--restart-seconds", options.restart_seconds,
      fmt::format("time from a failure until training continues (default: {:g})", kRestartSeconds));
}

absl::StatusOr<TrainingTerms> LoadTrainingTerms(const TrainingOptions& options) {
  TrainingTerms terms;
  for (const auto& [name, given] : {std::pair("--checkpoint-seconds", &options.checkpoint_seconds),
                                    std::pair("--restart-seconds", &options.restart_seconds)}) {
    if (given->empty() || !options.mtbf_hours.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} has no effect without failures; give --mtbf-hours too, or leave it out", name));
  }
  std::optional<double> restart_s;
  for (const absl::Status& status :
       {Load(kTokensTerm, options, terms.tokens), Load(kPriceTerm, options, terms.price_per_gpu_hour),
        Load(kMtbfTerm, options, terms.node_mtbf_s), Load(kCheckpointTerm, options, terms.checkpoint_s),
        Load(kRestartTerm, options, restart_s)}) {
    if (!status.ok()) return status;
  }
  terms.restart_s = restart_s.value_or(kRestartSeconds);
  return terms;
}

}  // namespace autocfg::cli
