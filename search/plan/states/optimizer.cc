#include "search/plan/states/optimizer.h"

#include <array>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::array<std::string_view, kOptimizerCount> kOptimizers = {"adamw", "sgd", "adafactor", "lion",
                                                                       "muon"};

}  // namespace

std::string_view Name(OptimizerKind kind) { return kOptimizers[static_cast<std::size_t>(kind)]; }

std::optional<OptimizerKind> ParseOptimizerKind(std::string_view name) {
  for (std::size_t i = 0; i < kOptimizers.size(); ++i) {
    if (kOptimizers[i] == name) return static_cast<OptimizerKind>(i);
  }
  return std::nullopt;
}

std::string UnknownOptimizer(std::string_view name) {
  std::vector<std::string> names(kOptimizers.begin(), kOptimizers.end());
  names.emplace_back(kAdamW8Bit);
  return fmt::format("unknown optimizer '{}'; expected {}", base::Printable(name), base::ChoiceText(names));
}

std::string OptimizerText(const Optimizer& optimizer) {
  if (optimizer.momentum == 0) return std::string(Name(optimizer.kind));
  return fmt::format("{} with momentum {}", Name(optimizer.kind), optimizer.momentum);
}

int MomentCount(const Optimizer& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::kAdamW: return 2;
    case OptimizerKind::kSgd: return optimizer.momentum > 0 ? 1 : 0;
    case OptimizerKind::kAdafactor: return 0;
    case OptimizerKind::kLion:
    case OptimizerKind::kMuon: return 1;
  }
  return 0;
}

absl::Status CheckEngineRuns(const Optimizer& optimizer) {
  if (optimizer.kind == OptimizerKind::kAdamW || optimizer.kind == OptimizerKind::kSgd)
    return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("{} can be predicted, not run; give adamw or sgd", Name(optimizer.kind)));
}

}  // namespace autocfg
