// An op as data: what the methods of Ops (ops.h) build, and what devices run and wrappers of ops pass on.
// Plain values that view their tensors for the duration of the call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

#include "kernels/attention_form.h"
#include "kernels/tensor.h"
#include "search/ops/op_desc.h"
#include "search/ops/rotary_frequencies.h"

namespace autocfg {

enum class Transpose : bool { kNo, kYes };

// What an update of parameters takes, besides its tensors.
struct UpdateParams {
  double lr = 0;
  double beta1 = 0.9;  // AdamW; likewise the next ones
  double beta2 = 0.95;
  double eps = 1e-8;
  double bias_correction1 = 1;  // 1 - beta1^t
  double bias_correction2 = 1;  // 1 - beta2^t
  double momentum = 0;          // Sgd
  // gradients are scaled by ClipFactor of this value and their norm; 0: no clipping
  double clip_norm = 0;
  // the square of that norm, [1] of kF64 on the device; read when the op runs, so that the host does not wait
  Tensor squared_norm;
};

// Returns the factor that scales gradients when they are clipped by the global L2 norm:
// min(1, clip_norm / (norm + 1e-6)), or 1 if clip_norm is 0 or the norm is NaN. Every device applies it.
inline double ClipFactor(double clip_norm, double norm) {
  return clip_norm == 0 ? 1.0 : std::min(1.0, clip_norm / (norm + 1e-6));
}

// The tensors of one parameter that AdamW or Sgd updates; all have the shape of `param`.
struct UpdatedTensor {
  Tensor param, grad;
  Tensor master = {};       // or absent
  Tensor m = {}, v = {};    // Sgd has no v, and without momentum no m
  double weight_decay = 0;  // see AdamW and Sgd (ops.h)
};

// What an op takes besides its operands and the descriptor; each op reads its own, by the names of ops.h.
struct OpArgs {
  double eps = 0;
  double factor = 1;  // Scale
  double scale = 1;   // of the gradient of a cross-entropy
  double value = 0;
  bool add_to_dx = false;
  bool inverse = false;  // Rope: back; columns: from the narrow matrix to the wide one
  std::int64_t ranks = 1;
  double softcap = 0;  // of logits
  std::int64_t valid = 0;
  std::int64_t vocab_start = 0;
  std::int64_t seq_len = 0, first = 0;  // PositionForward; columns
  AttentionForm form{};
  const RotaryFrequencies* frequencies = nullptr;  // Rope
};

// Which columns of logits count, and what they become first.
struct LogitForm {
  std::int64_t valid = 0;  // the first columns are real; the rest is padding
  double softcap = 0;      // c: a logit x becomes c tanh(x / c); 0: it stays
};

struct OpCall {
  static constexpr std::size_t kMostOperands = 8;

  OpDesc desc;                                          // complete once CheckOp has accepted the call
  std::array<const Tensor*, kMostOperands> operands{};  // in the order of OperandsOf (op_operands.h)
  OpArgs args{};
  std::span<const Tensor> summed{};  // SumOfSquares; its first operand is the first of them
  // AdamW and Sgd; their operands are those of the first tensor.
  std::span<const UpdatedTensor> updated{};
  const UpdateParams* params = nullptr;

  const Tensor& operator[](std::size_t i) const { return *operands[i]; }

  // Returns the first N operands, for structured bindings.
  template <std::size_t N>
  auto Operands() const {
    return [this]<std::size_t... i>(std::index_sequence<i...>) { return std::tie(*operands[i]...); }
    (std::make_index_sequence<N>());
  }
};

// Checks the operands against those of the op (op_operands.h) and against what ops.h requires beyond that,
// and sets the type and the dims that follow from them. What `desc` and `args` hold already stays: a dim that
// is not 0 is required of the operands. Throws std::invalid_argument that begins with the op's name.
void CheckOp(OpCall& call);

}  // namespace autocfg
