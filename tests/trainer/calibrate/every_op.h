// The ops that a device runs: those of a step, and those of other models.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "search/cost/op_lists/action_ops.h"
#include "search/schedule/program.h"
#include "trainer/config/train_config.h"

namespace autocfg::trainer {

// Returns every op of a step under a plan, each once.
inline std::vector<OpDesc> OpsOf(const TrainConfig& c) {
  std::set<OpDesc> ops;
  const Program program = Lower(c.model, c.workload, c.plan);
  for (std::int64_t stage = 0; stage < c.plan.pp; ++stage) {
    for (const Action& action : program.ranks[stage * c.plan.tp * c.plan.dp]) {
      for (const OpDesc& op : ActionOps(c.model, c.workload, c.plan, stage, action)) ops.insert(op);
    }
  }
  return {ops.begin(), ops.end()};
}

// Returns the ops that no step of GPT-2 issues.
inline std::vector<OpDesc> OtherOps(DType type) {
  std::vector<OpDesc> ops;
  const auto add = [&](OpKind kind, std::array<std::int64_t, 5> dims) -> OpDesc& {
    OpDesc& op = ops.emplace_back();
    op.kind = kind;
    op.dtype = type;
    op.dims = dims;
    return op;
  };
  add(OpKind::kRmsNormForward, {6, 8});
  add(OpKind::kRmsNormBackward, {6, 8});
  add(OpKind::kResidualAdd, {6, 8});
  add(OpKind::kScale, {6, 8});
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    const bool gated = IsGated(activation);
    for (bool bias : {false, true}) {
      OpDesc& op = gated ? add(OpKind::kActivationForward, {6, 12}) : add(OpKind::kMatmul, {6, 12, 5});
      if (!gated) SetEpilogue(op, Epilogue::kActivation);
      op.activation = activation;
      op.bias = bias;
    }
    OpDesc& op = gated ? add(OpKind::kActivationBackward, {6, 12}) : add(OpKind::kMatmul, {6, 12, 5});
    if (!gated) SetEpilogue(op, Epilogue::kActivationGradient);
    op.activation = activation;
  }
  for (int i = 1; i < kEpilogueCount; ++i) {
    OpDesc op{.dtype = type, .dims = {6, 12, 5}};
    SetEpilogue(op, static_cast<Epilogue>(i));
    if (HasActivation(op)) continue;  // above, with each activation
    ops.push_back(op);
    op.bias = true;
    if (TakesBias(op)) ops.push_back(op);
  }
  add(OpKind::kHeadNormForward, {6, 2, 4, 1});
  add(OpKind::kHeadNormBackward, {6, 2, 4, 1});
  add(OpKind::kHeadNormBackward, {6, 2, 4, 1}).accumulate = true;
  for (const OpKind kind :
       {OpKind::kQkSquares, OpKind::kQkNormForward, OpKind::kQkProducts, OpKind::kQkNormBackward})
    add(kind, {6, 2, 4, 1});
  add(OpKind::kRope, {6, 3, 4, 2});
  add(OpKind::kCrossEntropy, {6, 8});
  add(OpKind::kAttentionForward, {2, 3, 4, 6, 2});
  add(OpKind::kAttentionBackward, {2, 3, 4, 6, 2});
  add(OpKind::kUnfusedAttentionForward, {2, 3, 4, 6, 2});
  add(OpKind::kUnfusedAttentionBackward, {2, 3, 4, 6, 2});
  for (const OpKind kind : {OpKind::kAttentionForward, OpKind::kAttentionBackward,
                            OpKind::kUnfusedAttentionForward, OpKind::kUnfusedAttentionBackward})
    add(kind, {2, 3, 6, 4, 3}).alibi = true;
  return ops;
}

}  // namespace autocfg::trainer
