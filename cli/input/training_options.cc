#include "cli/input/training_options.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "base/text.h"
#include "cli/input/option_values.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

constexpr double kMostTokens = 1e18;

// A number from `least` to `most`, in units of `unit`; empty if not given.
absl::Status Load(std::string_view name, const std::string& text, double least, double most, double unit,
                  std::optional<double>& value) {
  if (text.empty()) return absl::OkStatus();
  const auto number = ParseReal(name, text, least, most);
  if (!number.ok()) return number.status();
  value = *number * unit;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> ParseTokens(std::string_view name, std::string_view text) {
  static constexpr std::pair<char, double> kUnits[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  std::string_view number = text;
  double unit = 1;
  for (const auto& [letter, factor] : kUnits) {
    if (!text.ends_with(letter)) continue;
    unit = factor;
    number.remove_suffix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  value *= unit;
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value) || value < 1 ||
      value > kMostTokens) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: invalid value '{}'; expected a number of tokens from 1 to {:g}, such as 300e9, 300B or "
        "1.5T",
        name, base::Printable(text), kMostTokens));
  }
  return value;
}

void AddTrainingOptions(CLI::App* verb, TrainingOptions& options) {
  verb->add_option("--tokens", options.tokens,
                   "tokens of the whole run, such as 300e9, 300B or 1.5T: how many days it takes");
  verb->add_option("--price-per-gpu-hour", options.price_per_gpu_hour, "what the run costs, in any currency");
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
  if (!options.tokens.empty()) {
    const auto tokens = ParseTokens("--tokens", options.tokens);
    if (!tokens.ok()) return tokens.status();
    terms.tokens = *tokens;
  }
  for (const auto& [name, given] : {std::pair("--checkpoint-seconds", &options.checkpoint_seconds),
                                    std::pair("--restart-seconds", &options.restart_seconds)}) {
    if (given->empty() || !options.mtbf_hours.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} has no effect without failures; give --mtbf-hours too, or leave it out", name));
  }
  std::optional<double> restart_s;
  for (const absl::Status& status :
       {Load("--price-per-gpu-hour", options.price_per_gpu_hour, 1e-9, 1e9, 1, terms.price_per_gpu_hour),
        Load("--mtbf-hours", options.mtbf_hours, 1e-6, 1e9, 3600, terms.node_mtbf_s),
        Load("--checkpoint-seconds", options.checkpoint_seconds, 1e-6, 1e6, 1, terms.checkpoint_s),
        Load("--restart-seconds", options.restart_seconds, 0, 1e6, 1, restart_s)}) {
    if (!status.ok()) return status;
  }
  terms.restart_s = restart_s.value_or(kRestartSeconds);
  return terms;
}

}  // namespace autocfg::cli
