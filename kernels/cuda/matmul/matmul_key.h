// The shape of one matrix product, in row-major terms: everything that the choice of an algorithm depends on.
// Plain values, thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "search/ops/dtype.h"

namespace autocfg::cuda {

// What the library applies to the product before it is stored. Vectors and matrices are those of
// MatmulOperands.
enum class LtEpilogue : std::uint8_t {
  kNone,
  kBias,          // + bias[n]
  kGelu,          // aux = the product, d = gelu(aux), the tanh form
  kGeluBias,      // aux = the product + bias[n], d = gelu(aux)
  kGeluGradient,  // d = the product * gelu'(aux)
  kBiasGradient,  // bias[n] = column sums of b[k,n], beside the product
};
std::string_view Name(LtEpilogue epilogue);

// d[m,n] = op(a)[m,k] op(b)[k,n] (+ c).
struct MatmulKey {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is [k,m]
  bool transpose_b = false;  // b is [n,k]
  bool accumulate = false;   // c is added
  DType operands = DType::kF32;
  DType result = DType::kF32;
  LtEpilogue epilogue = LtEpilogue::kNone;
  int alignment = 16;  // power of two, at most 16, that divides the addresses of all operands

  auto operator<=>(const MatmulKey&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

std::string ToString(const MatmulKey& key);  // "matmul bf16->fp32 nt 512x768x3072 acc gelu_bias align 16"

}  // namespace autocfg::cuda
