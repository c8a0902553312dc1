// The element types of one training run. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "search/ops/dtype.h"

namespace autocfg {

struct Precision {
  DType parameters = DType::kF32;     // the weights that compute reads
  DType compute = DType::kF32;        // activations and matrix products
  DType statistics = DType::kF32;     // norm statistics, log-sum-exp, cross-entropy sums
  DType gradients = DType::kF32;      // accumulated gradients
  DType optimizer = DType::kF32;      // first and second moments
  DType communication = DType::kF32;  // gradient reduction
  bool master_weights = false;        // a second copy of the weights in the optimizer's type

  bool operator==(const Precision&) const = default;
};

// "fp64", "fp32", "bf16", "fp16" -> its types: fp64 and fp32 use one type for all; bf16 and fp16 compute in
// two bytes with fp32 statistics, gradients, moments and master weights. Empty for any other name.
std::optional<Precision> ParsePrecision(std::string_view name);

// The name that ParsePrecision takes; "custom" for a mix that has none.
std::string_view Name(const Precision& precision);

}  // namespace autocfg
