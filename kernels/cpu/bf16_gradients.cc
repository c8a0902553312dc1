#include "kernels/cpu/bf16_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "kernels/bf16.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/op_operands.h"

namespace autocfg::cpu {

void Bf16Gradients::Run(const OpCall& call) {
  switch (call.desc.kind) {
    case OpKind::kSumOfSquares:
      for (const Tensor& x : call.summed)
        *call[1].As<double>() += SumOfSquares(x.Elements(), x.As<const Bf16Bits>());
      return;
    case OpKind::kResidualAdd: {
      const auto [y, residual] = call.Operands<2>();
      Bf16Bits* sum = y.As<Bf16Bits>();
      const Bf16Bits* added = residual.As<const Bf16Bits>();
      for (std::int64_t i = 0; i < y.Elements(); ++i) sum[i] = ToBf16(FromBf16(sum[i]) + FromBf16(added[i]));
      return;
    }
    case OpKind::kFill:
      std::fill_n(call[0].As<Bf16Bits>(), call.desc.dims[0], ToBf16(static_cast<float>(call.args.value)));
      return;
    default:
      throw std::invalid_argument(
          fmt::format("{}: bf16 is not supported on the cpu device; use fp32 or fp64", Name(call.desc.kind)));
  }
}

void Bf16Gradients::RunWide(const OpCall& call, void (*run)(const OpCall&)) {
  OpCall wide = call;
  wide.desc.gradients.reset();
  std::array<Tensor, OpCall::kMostOperands> tensors;
  const std::span<const Operand> operands = OperandsOf(call.desc);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind != OperandKind::kGradient) continue;
    const Bf16Bits* bits = call[i].As<const Bf16Bits>();
    const std::int64_t n = call[i].Elements();
    wide_[i].resize(static_cast<std::size_t>(n));
    if (call.desc.accumulate) std::transform(bits, bits + n, wide_[i].begin(), FromBf16);
    tensors[i] = call[i];
    tensors[i].dtype = DType::kF32;
    tensors[i].data = wide_[i].data();
    wide.operands[i] = &tensors[i];
  }
  run(wide);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind == OperandKind::kGradient)
      std::transform(wide_[i].begin(), wide_[i].end(), call[i].As<Bf16Bits>(), ToBf16);
  }
}

}  // namespace autocfg::cpu
