// Every op that a device runs, once in each form, for tests that go through all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "search/ops/op_desc.h"

namespace autocfg::test {

// Returns ops of every compute kind that compute in `type`: with each activation, epilogue and transpose,
// with and without bias, ALiBi and a window, soft cap and accumulation. The dims of an op differ from each
// other.
inline std::vector<OpDesc> EveryComputeOp(DType type) {
  static constexpr std::pair<char, std::int64_t> kSizes[] = {
      {'m', 6}, {'n', 4}, {'k', 5}, {'T', 11}, {'H', 8}, {'F', 9},  {'V', 13},
      {'B', 2}, {'S', 3}, {'N', 6}, {'G', 3},  {'D', 7}, {'R', 10}, {'r', 4}};
  std::vector<OpDesc> ops;
  const auto add = [&](const OpDesc& op) {
    ops.push_back(op);
    OpDesc other = op;
    if (TakesBias(op)) {
      other.bias = true;
    } else if (TakesAccumulate(op)) {
      other.accumulate = true;
    } else if (IsAttention(op.kind)) {
      other.alibi = true;
      other.window = 2;
    }
    if (other != op) ops.push_back(other);
    if (!TakesSoftCap(op.kind)) return;
    other = op;
    other.softcap = true;
    ops.push_back(other);
  };
  const auto add_activations = [&](OpDesc op, bool gated) {
    for (int i = 0; i < kActivationCount; ++i) {
      op.activation = static_cast<Activation>(i);
      if (IsGated(op.activation) == gated) add(op);
    }
  };
  for (int i = 0; i < kOpKindCount; ++i) {
    OpDesc op{.kind = static_cast<OpKind>(i), .dtype = type};
    if (IsCommunication(op.kind)) continue;
    std::size_t d = 0;
    for (const char letter : DimLetters(op.kind)) {
      for (const auto& [of, size] : kSizes) op.dims[d] = of == letter ? size : op.dims[d];
      ++d;
    }
    const bool of_statistics =
        op.kind == OpKind::kCrossEntropyRescale || op.kind == OpKind::kCrossEntropyLoss;
    if (of_statistics && type != DType::kF64) op.dtype = DType::kF32;
    if (UpdatesParameters(op.kind)) {
      op.moments = GradientType(type);
      if (SizeOf(type) < 4) op.master = DType::kF32;
    }
    if (HasActivation(op)) {
      add_activations(op, true);
    } else if (op.kind != OpKind::kMatmul) {
      add(op);
    } else {
      for (const auto& [a, b] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
        op.transpose_a = a;
        op.transpose_b = b;
        add(op);
      }
      for (int e = 1; e < kEpilogueCount; ++e) {
        SetEpilogue(op, static_cast<Epilogue>(e));
        if (HasActivation(op)) {
          add_activations(op, false);
        } else {
          add(op);
        }
      }
    }
  }
  return ops;
}

}  // namespace autocfg::test
