// The element types of a training run. Plain values.
//
// Text form: a base, and the types of states that differ from the base's own, such as
// "bf16:grads=bf16,moments=bf16,master=none".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search/ops/dtype.h"
#include "search/plan/states/product_format.h"

namespace autocfg {

struct Precision {
  DType parameters = DType::kF32;  // the weights that compute reads
  DType compute = DType::kF32;     // activations and matrix products
  DType statistics = DType::kF32;  // norm statistics, log-sum-exp, cross-entropy sums
  DType gradients = DType::kF32;   // gradients of parameters: accumulated, reduced and read by the optimizer
  DType moments = DType::kF32;     // of the optimizer
  // The copy of the weights that the optimizer updates, which then become its rounded values. Without one the
  // optimizer updates the weights.
  std::optional<DType> master = {};
  // Of the products of layers, whose operands casts make of the compute type.
  ProductFormat products = ProductFormat::kCompute;

  bool operator==(const Precision&) const = default;
};

// Parses a text form. Bases:
//
//   fp64, fp32   one type for everything
//   bf16, fp16   computes in two bytes, with fp32 statistics, gradients, moments and master copy
//   fp8, fp8_block, mxfp8, nvfp4   bf16 with the products of layers in a narrow format (product_format.h)
//
// Types of states, each at most once, in any order:
//
//   grads     fp32, or two bytes: the compute type, or with fp32 bf16
//   moments   fp32, bf16, fp16, or int8 (blocks with a scale each, Dettmers et al. 2022)
//   master    fp32, fp16, the compute type of two bytes, or none; fp32 and fp64 runs have none
//
// InvalidArgument, naming the value and what is accepted.
absl::StatusOr<Precision> ParsePrecision(std::string_view text);

// Returns "unknown precision 'fp17'; expected fp64, fp32, ... or nvfp4", with `name` made printable.
std::string UnknownBase(std::string_view name);

// Returns the name of the base.
std::string_view BaseName(const Precision& precision);

// Returns the text form that ParsePrecision accepts, without types of states that are the base's own.
std::string PrecisionText(const Precision& precision);

// Returns what the descriptor of an op that uses gradients of parameters says of their type (OpDesc).
std::optional<DType> GradientsOfOps(const Precision& precision);

// Returns OK if the engine runs the types on some device (cluster/engine_device.h: CheckRuns). Unimplemented,
// naming one, for those that are predicted only.
absl::Status CheckEngineRuns(const Precision& precision);

}  // namespace autocfg
