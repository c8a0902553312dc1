// Ops on gradients of parameters that are kept in bf16 where a rank computes in fp32.
#pragma once

#include <array>
#include <vector>

#include "kernels/op_call.h"

namespace autocfg::cpu {

class Bf16Gradients {
 public:
  // Runs an op all of whose operands are such gradients: each element is computed in fp32 and rounded. Throws
  // std::invalid_argument for an op that gradients do not have.
  static void Run(const OpCall& call);

  // Calls `run` with the op in fp32 alone, of which gradients are results: they begin with what they are if
  // the op adds to them, and are rounded at the end.
  void RunWide(const OpCall& call, void (*run)(const OpCall&));

 private:
  std::array<std::vector<float>, OpCall::kMostOperands> wide_;  // by operand
};

}  // namespace autocfg::cpu
