// The options about a whole training run: --tokens, --price-per-gpu-hour, and those about failures.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/training_time/training_estimate.h"

namespace CLI {
class App;
}

namespace autocfg::cli {

// As given; empty: not given.
struct TrainingOptions {
  std::string tokens, price_per_gpu_hour, mtbf_hours, checkpoint_seconds, restart_seconds;
};

// Adds the options. `options` must outlive the parsing.
void AddTrainingOptions(CLI::App* verb, TrainingOptions& options);

// InvalidArgument, naming the option: a value that is no number or out of range, or one about checkpoints
// without --mtbf-hours.
absl::StatusOr<TrainingTerms> LoadTrainingTerms(const TrainingOptions& options);

// Returns what each value with a unit was read as: "--tokens: 1T is 1,000,000,000,000 tokens". The price is
// always among them, since a shell may have changed it.
std::vector<std::string> UnitNotes(const TrainingOptions& options);

// Parses a whole number of tokens from 1 to 1e18: "300e9", "300000000000", "300B" or "1.5T" (base/units.h).
absl::StatusOr<double> ParseTokens(std::string_view name, std::string_view text);

}  // namespace autocfg::cli
