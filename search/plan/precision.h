// The element types of a training run. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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
  // The products of layers take operands of one byte, which casts make of the compute type; that of the
  // output layer does not. Predicted, not run.
  bool fp8_products = false;
  bool master_weights = false;  // the optimizer keeps a copy of the weights in its type

  bool operator==(const Precision&) const = default;
};

// Parses "fp64", "fp32", "bf16", "fp16" or "fp8"; empty for any other name. fp64 and fp32 use one type for
// everything. bf16 and fp16 compute in two bytes, with fp32 statistics, gradients, moments and master
// weights. fp8 is bf16 with the products of layers in fp8 (Micikevicius et al. 2022).
std::optional<Precision> ParsePrecision(std::string_view name);

// Returns "unknown precision 'fp17'; expected fp64, fp32, bf16, fp16 or fp8", with `name` made printable.
std::string UnknownPrecision(std::string_view name);

// Returns the name that ParsePrecision accepts; "custom" for a combination without a name.
std::string_view Name(const Precision& precision);

}  // namespace autocfg
