// The operands of an op: names, types and shapes, in the order in which Ops takes them. The op checks require
// them, and calibration makes tensors of them. Pure functions, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/tensor.h"
#include "search/ops/dtype.h"
#include "search/ops/op_desc.h"

namespace autocfg {

// What an operand holds, which decides its type.
enum class OperandKind : std::uint8_t {
  kCompute,     // the op's own type
  kResult,      // of a plain product: any floating-point type; of a step: the op's own
  kGradient,    // of a parameter: any floating-point type; of a step: that of statistics
  kStatistics,  // fp32 or fp64; of a step: fp64 if the op is, else fp32
  kTokenIds,    // int32
  kScalar,      // fp64
};

struct Operand {
  std::string_view name;
  OperandKind kind = OperandKind::kCompute;
  int rank = 0;  // 0: absent, because the op has it only if OpDesc says so
  std::array<std::int64_t, kMaxRank> shape{};

  bool IsPresent() const { return rank > 0; }
  std::span<const std::int64_t> Shape() const { return {shape.data(), static_cast<std::size_t>(rank)}; }
};

// At most kMostOperands.
class Operands {
 public:
  static constexpr std::size_t kMost = 8;

  std::span<const Operand> all() const { return {list_.data(), count_}; }
  // Throws std::logic_error if there are kMost already.
  void Add(std::string_view name, OperandKind kind, std::initializer_list<std::int64_t> shape);
  void AddAbsent(std::string_view name) { Add(name, OperandKind::kCompute, {}); }

 private:
  std::array<Operand, kMost> list_{};
  std::size_t count_ = 0;
};

// Returns the operands of a compute op, or the buffer of a communication op. Where `dims` leaves a shape
// open, it is the smallest one of an op with these dims:
//   Rope, Position   one sequence of all tokens; only the rotated heads; a table of as many positions
//   Attention        a workspace of AttentionWorkspaceElements, which may be larger
//   Fill, SumOfSquares, AdamW   one tensor of rank 1
Operands OperandsOf(const OpDesc& op);

// Returns the type that an operand has in a training step whose op computes in `compute`.
DType TypeInStep(OperandKind kind, DType compute);

}  // namespace autocfg
