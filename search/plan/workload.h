// The training work per step, apart from model and plan. Plain values.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "search/plan/model_spec.h"
#include "search/plan/precision.h"

namespace autocfg {

// Upper limits.
inline constexpr std::int64_t kMaxGlobalBatch = 1'000'000'000;
inline constexpr std::int64_t kMaxSeqLen = 100'000'000;

struct Workload {
  std::int64_t global_batch = 0;  // sequences per step
  std::int64_t seq_len = 0;       // tokens per sequence
  Precision precision = {};

  bool operator==(const Workload&) const = default;
};

// InvalidArgument, naming the field: sizes that are not positive or too large, or a sequence longer than the
// learned positions.
absl::Status Validate(const Workload& workload, const ModelSpec& model);

}  // namespace autocfg
