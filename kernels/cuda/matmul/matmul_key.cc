#include "kernels/cuda/matmul/matmul_key.h"

#include <fmt/format.h>

namespace autocfg::cuda {

std::string_view Name(LtEpilogue epilogue) {
  switch (epilogue) {
    case LtEpilogue::kNone: return "none";
    case LtEpilogue::kBias: return "bias";
    case LtEpilogue::kGelu: return "gelu";
    case LtEpilogue::kGeluBias: return "gelu_bias";
    case LtEpilogue::kGeluGradient: return "gelu_gradient";
    case LtEpilogue::kBiasGradient: return "bias_gradient";
  }
  return "unknown";
}

std::string ToString(const MatmulKey& key) {
  return fmt::format("matmul {}->{} {}{} {}x{}x{}{}{} align {}", autocfg::Name(key.operands),
                     autocfg::Name(key.result), key.transpose_a ? 't' : 'n', key.transpose_b ? 't' : 'n',
                     key.m, key.n, key.k, key.accumulate ? " acc" : "",
                     key.epilogue == LtEpilogue::kNone ? "" : fmt::format(" {}", Name(key.epilogue)),
                     key.alignment);
}

}  // namespace autocfg::cuda
