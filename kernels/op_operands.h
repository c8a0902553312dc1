// The operands of an op: names, types and shapes, in the order in which Ops takes them. The op checks require
// them, and calibration makes tensors of them. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "search/ops/dtype.h"
#include "search/ops/op_desc.h"

namespace autocfg {

// What an operand holds, which decides its type.
enum class OperandKind : std::uint8_t {
  kCompute,  // the op's own type
  kResult,   // of a plain product: any floating-point type; of a step: the op's own
  // of a parameter: any floating-point type, one for all of an op; of a step: that of statistics, or the
  // descriptor's
  kGradient,
  kMoment,      // of an optimizer: the descriptor's type
  kMaster,      // copy of a weight: the descriptor's type
  kStatistics,  // fp32 or fp64, one for all of an op; of a step: fp64 if the op is, else fp32
  kTokenIds,    // int32
  kScalar,      // fp64
};

enum class Presence : std::uint8_t {
  kAlways,
  kIfBias,  // that the descriptor has; likewise the others
  kIfMoments,
  kIfMaster,
};

struct Operand {
  std::string_view name;
  OperandKind kind = OperandKind::kCompute;
  std::string_view shape;  // a letter for each dim (Extent)
  Presence presence = Presence::kAlways;
  bool open = false;  // `shape` is the smallest that an op with these dims has; CheckOp knows the others

  bool IsIn(const OpDesc& op) const {
    switch (presence) {
      case Presence::kAlways: return true;
      case Presence::kIfBias: return op.bias;
      case Presence::kIfMoments: return op.moments.has_value();
      case Presence::kIfMaster: return op.master.has_value();
    }
    return true;
  }
};

// Returns the operands of a compute op, or the buffer of a communication op. The sizes in `op` are not read.
std::span<const Operand> OperandsOf(const OpDesc& op);

// Returns the size that a letter of a shape stands for. It is one of DimLetters, a digit, or one of these:
//   W  2F, or F        O  N D       J  N + G          X  R D
//   Q  (N + 2G) D      L  G D       K  (N + G) D      w  AttentionWorkspaceElements(S, D)
std::int64_t Extent(const OpDesc& op, char letter);

// Returns the type that an operand of the op has in a training step. Requires that the op has the operand.
DType TypeInStep(OperandKind kind, const OpDesc& op);

}  // namespace autocfg
