// The training work per step, apart from model and plan. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "search/plan/model_spec.h"
#include "search/plan/states/optimizer.h"
#include "search/plan/states/precision.h"

namespace autocfg {

// Upper limits.
inline constexpr std::int64_t kMaxGlobalBatch = 1'000'000'000;
inline constexpr std::int64_t kMaxSeqLen = 100'000'000;

struct Workload {
  std::int64_t global_batch = 0;  // sequences per step
  std::int64_t seq_len = 0;       // tokens per sequence
  Precision precision = {};
  Optimizer optimizer = {};

  bool operator==(const Workload&) const = default;
};

// Sets the optimizer by its name (empty: AdamW) and momentum, and for adamw8bit the moments of the precision,
// which is set before. InvalidArgument about an option of "request" (optimizer or momentum): an unknown name,
// a momentum that is not below 1 or that the optimizer does not have, or moments that adamw8bit cannot keep.
absl::Status SetOptimizer(std::string_view name, std::optional<double> momentum, Workload& workload);

// Returns the types of states and the optimizer for a person: "bf16", "bf16:master=none, sgd".
std::string StatesText(const Workload& workload);

// Returns the bytes of optimizer states for each parameter: of moments (as of a matrix of a layer) and of the
// master copy.
double StateBytes(const Workload& workload);

// InvalidArgument, naming the field: sizes that are not positive or too large, a sequence longer than the
// learned positions, or one longer than a chunk of the model's layers that does not consist of whole chunks.
absl::Status Validate(const Workload& workload, const ModelSpec& model);

}  // namespace autocfg
