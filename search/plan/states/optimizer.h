// The optimizer of a training run: which states it keeps of each parameter. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace autocfg {

// kSgd and kAdamW run; the others are predicted only.
//
//   kAdamW      two moments (Loshchilov & Hutter 2019)
//   kSgd        one moment with momentum, else none
//   kAdafactor  the second moment of a matrix as one value for each row and column; no first moment
//               (Shazeer & Stern 2018)
//   kLion       one moment (Chen et al. 2023)
//   kMuon       one moment of the matrices of layers, whose updates it orthogonalizes; AdamW for the other
//               parameters (Jordan et al. 2024)
enum class OptimizerKind : std::uint8_t { kAdamW, kSgd, kAdafactor, kLion, kMuon };
inline constexpr std::size_t kOptimizerCount = static_cast<std::size_t>(OptimizerKind::kMuon) + 1;

struct Optimizer {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double momentum = 0;  // kSgd only, below 1

  bool operator==(const Optimizer&) const = default;
};

// AdamW with moments of one byte each in blocks: a name of optimizer and precision together (workload.h).
inline constexpr std::string_view kAdamW8Bit = "adamw8bit";

std::string_view Name(OptimizerKind kind);  // "adamw", "sgd", "adafactor", "lion", "muon"
std::optional<OptimizerKind> ParseOptimizerKind(std::string_view name);

// Returns "unknown optimizer 'x'; expected adamw, sgd, adafactor, lion, muon or adamw8bit".
std::string UnknownOptimizer(std::string_view name);

// Returns the optimizer for a person: "adamw", "sgd", "sgd with momentum 0.9".
std::string OptimizerText(const Optimizer& optimizer);

// Returns how many moments it keeps of each element of a parameter, besides those of Adafactor: of Muon, of a
// matrix of a layer.
int MomentCount(const Optimizer& optimizer);

// Unimplemented, naming what runs, for an optimizer that is predicted only.
absl::Status CheckEngineRuns(const Optimizer& optimizer);

}  // namespace autocfg
