#include "trainer/calibrate/scratch_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/op_operands.h"
#include "trainer/layout/element_copy.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;
// Period of the fill pattern, in elements: a prime larger than the widths of models, so that no two rows of a
// matrix are equal. With equal rows a GPU draws less power than in training. If power limits its clock, it
// would then be timed as faster than it is.
constexpr std::size_t kPeriod = 131'101;
// Step through the period: in the golden ratio to it, so that neighbours are far apart.
constexpr std::size_t kStride = 81'025;
// What other copies take of the cache, at least, until a copy's turn comes again; in cache sizes. Caches do
// not always replace what was used longest ago.
constexpr std::int64_t kFlushedBy = 2;
// Bounds the memory and the time to set up of ops that are small: their time is that of a launch.
constexpr std::int64_t kMostCopies = 64;

void CheckDims(const OpDesc& op) {
  for (int i = 0; i < DimCount(op.kind); ++i) {
    if (op.dims[i] < 1 || op.dims[i] > kMaxDim) {
      throw BadInput(
          fmt::format("op \"{}\" cannot be timed: its size {} is {}", ToString(op), i, op.dims[i]));
    }
  }
}

// The slopes of a model that has these heads alone: other slopes take as long.
AttentionForm FormOf(const OpDesc& op) {
  return {.heads = op.dims[2], .kv_heads = op.dims[4], .alibi_heads = op.alibi ? op.dims[2] : 0};
}

}  // namespace

ScratchOp::ScratchOp(const OpDesc& op, Device& device, Ops& ops, Stream& stream)
    : device_(device), ops_(ops), stream_(stream), arena_(device) {
  CheckDims(op);
  Prepare(op);
  Allocate();
}

void ScratchOp::Take(const OpDesc& op, std::initializer_list<Contents> contents) {
  const Operands operands = OperandsOf(op);
  if (operands.all().size() != contents.size()) {
    throw std::logic_error(fmt::format("{} of {} operands of {} have contents", contents.size(),
                                       operands.all().size(), Name(op.kind)));
  }
  const Contents* each = contents.begin();
  for (const Operand& operand : operands.all()) {
    const Contents& held = *each++;
    Slot& slot = slots_.emplace_back();
    slot.contents = held;
    if (!operand.IsPresent()) continue;
    slot.first = arena_.Reserve(Region::kWorkspace, TypeInStep(operand.kind, op.dtype), operand.Shape());
    if (held.found == Found::kInMemory) memory_bytes_ += slot.first.tensor.Bytes();
  }
}

// Between two runs on a copy, the others push it out of the cache.
std::size_t ScratchOp::CopiesNeeded() const {
  const std::int64_t cache = device_.CacheBytes();
  if (memory_bytes_ == 0 || memory_bytes_ >= kFlushedBy * cache) return 1;
  const std::int64_t others = kFlushedBy * cache / memory_bytes_;
  return static_cast<std::size_t>(std::min(others + 1, kMostCopies));
}

void ScratchOp::Allocate() {
  std::vector<std::vector<Reservation>> reserved(CopiesNeeded());
  for (std::size_t copy = 0; copy < reserved.size(); ++copy) {
    for (const Slot& slot : slots_) {
      const bool own = copy > 0 && slot.first.tensor.IsPresent() && slot.contents.found == Found::kInMemory;
      reserved[copy].push_back(own ? arena_.ReserveLike(slot.first) : slot.first);
    }
  }
  arena_.Commit();
  for (const std::vector<Reservation>& each : reserved) {
    std::vector<Tensor>& tensors = copies_.emplace_back();
    for (const Reservation& r : each) tensors.push_back(r.tensor.IsPresent() ? arena_.At(r) : Tensor{});
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Tensor& first = copies_[0][i];
    if (first.data == nullptr) continue;
    const bool ids = first.dtype == DType::kI32;
    if (!ids) FillNumbers(slots_[i].contents, first);
    for (std::size_t copy = 0; copy < copies_.size(); ++copy) {
      const Tensor& tensor = copies_[copy][i];
      if (copy > 0 && tensor.data == first.data) continue;
      if (ids) {
        FillIds(slots_[i].contents, tensor, copy);
      } else if (copy > 0) {
        device_.CopyWithin(tensor.data, first.data, first.Bytes(), stream_);
      }
    }
  }
  stream_.Synchronize();
  tensors_ = copies_[0];
}

void ScratchOp::FillIds(const Contents& contents, const Tensor& tensor, std::size_t copy) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tensor.Elements()));
  const auto range = std::max<std::int64_t>(1, static_cast<std::int64_t>(contents.spread));
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids[k] = static_cast<std::int32_t>(static_cast<std::int64_t>((k + copy * ids.size()) * 7919) % range);
  device_.CopyFromHost(tensor.data, ids.data(), tensor.Bytes(), stream_);
}

void ScratchOp::FillNumbers(const Contents& contents, const Tensor& tensor) {
  const auto value = [&](std::size_t k) {  // evenly distributed, in no simple order
    return contents.value +
           contents.spread * (static_cast<double>(k * kStride % kPeriod) / (kPeriod / 2.0) - 1.0);
  };
  std::vector<double> values(std::min(kPeriod, static_cast<std::size_t>(tensor.Elements())));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = value(k);
  RepeatFromDoubles(values, tensor, device_, stream_);
}

void ScratchOp::Prepare(const OpDesc& op) {
  switch (op.kind) {
    case OpKind::kMatmul: return PrepareMatmul(op);
    case OpKind::kLayerNormForward:
    case OpKind::kLayerNormBackward:
    case OpKind::kRmsNormForward:
    case OpKind::kRmsNormBackward: return PrepareNorm(op);
    case OpKind::kBiasResidual:
    case OpKind::kResidualAdd:
    case OpKind::kScale: return PrepareRows(op);
    case OpKind::kActivationForward:
    case OpKind::kActivationBackward: return PrepareActivation(op);
    case OpKind::kHeadNormForward:
    case OpKind::kHeadNormBackward: return PrepareHeadNorm(op);
    case OpKind::kQkSquares:
    case OpKind::kQkNormForward:
    case OpKind::kQkProducts:
    case OpKind::kQkNormBackward: return PrepareQkNorm(op);
    case OpKind::kRope: return PrepareRope(op);
    case OpKind::kAttentionForward:
    case OpKind::kAttentionBackward: return PrepareAttention(op);
    case OpKind::kUnfusedAttentionForward:
    case OpKind::kUnfusedAttentionBackward: return PrepareUnfusedAttention(op);
    case OpKind::kEmbeddingForward:
    case OpKind::kEmbeddingBackward:
    case OpKind::kPositionForward:
    case OpKind::kPositionBackward: return PrepareEmbedding(op);
    case OpKind::kCrossEntropy:
    case OpKind::kCrossEntropyForward:
    case OpKind::kCrossEntropyRescale:
    case OpKind::kCrossEntropyLoss:
    case OpKind::kCrossEntropyBackward: return PrepareCrossEntropy(op);
    case OpKind::kFill:
    case OpKind::kSumOfSquares:
    case OpKind::kAdamW:
    case OpKind::kAllReduceSum:
    case OpKind::kAllReduceMax:
    case OpKind::kSend:
    case OpKind::kRecv:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather: return PrepareFlat(op);
  }
  throw BadInput(fmt::format("op \"{}\" cannot be timed: unknown kind", ToString(op)));
}

void ScratchOp::PrepareMatmul(const OpDesc& op) {
  OpDesc formed = op;
  SetEpilogue(formed, op.epilogue);
  if (formed != op) {
    throw BadInput(fmt::format("op \"{}\" cannot be timed: its epilogue requires another form of the product",
                               ToString(op)));
  }
  const Activation activation = op.activation;
  const bool accumulate = op.accumulate;
  // Of x W and dy W^T, the first operand was just written. Of x^T dy, x was saved by the forward.
  const Contents a{0, 0.5, op.transpose_a ? Found::kInMemory : Found::kInCache};
  const Contents b{0, 0.5, op.transpose_a ? Found::kInCache : Found::kInMemory};
  const Contents c{0, 0.5}, bias{0, 0.1}, rows{0, 1};
  switch (op.epilogue) {
    case Epilogue::kNone:
      Take(op, {a, b, c});
      run_ = [=, this, ta = Transpose{op.transpose_a}, tb = Transpose{op.transpose_b}] {
        ops_.Matmul(tensors_[0], ta, tensors_[1], tb, tensors_[2], accumulate, stream_);
      };
      return;
    case Epilogue::kBias:
      Take(op, {a, b, bias, c});
      run_ = [this] { ops_.MatmulBias(tensors_[0], tensors_[1], tensors_[2], tensors_[3], stream_); };
      return;
    case Epilogue::kActivation:
      Take(op, {a, b, bias, c, rows});
      run_ = [=, this] {
        const auto& v = tensors_;
        ops_.MatmulActivation(activation, v[0], v[1], v[2], v[3], v[4], stream_);
      };
      return;
    case Epilogue::kActivationGradient:
      Take(op, {a, b, {1, 0.2}, c});
      run_ = [=, this] {
        const auto& v = tensors_;
        ops_.MatmulActivationBackward(activation, v[0], v[1], v[2], v[3], stream_);
      };
      return;
    case Epilogue::kResidual:
      Take(op, {a, b, bias, rows, c});
      run_ = [this] {
        const auto& v = tensors_;
        ops_.MatmulResidual(v[0], v[1], v[2], v[3], v[4], stream_);
      };
      return;
    case Epilogue::kBiasGradient:
      Take(op, {a, b, c, bias});
      run_ = [=, this] {
        const auto& v = tensors_;
        ops_.MatmulBiasGradient(v[0], v[1], v[2], v[3], accumulate, stream_);
      };
      return;
  }
  throw BadInput(fmt::format("op \"{}\" cannot be timed: unknown epilogue", ToString(op)));
}

void ScratchOp::PrepareNorm(const OpDesc& op) {
  const Contents written{0, 1, Found::kInCache}, saved{0, 1}, gamma{1, 0.1}, beta{0, 0.1}, mean{0, 0.1},
      rstd{1, 0.1}, gradient{0, 1};
  const bool accumulate = op.accumulate;
  switch (op.kind) {
    case OpKind::kLayerNormForward:
      Take(op, {written, gamma, beta, saved, mean, rstd});
      run_ = [this] {
        const auto& v = tensors_;
        ops_.LayerNormForward(v[0], v[1], v[2], 1e-5, v[3], v[4], v[5], stream_);
      };
      return;
    case OpKind::kLayerNormBackward:
      Take(op, {written, saved, gamma, mean, rstd, saved, gradient, gradient});
      run_ = [=, this] {
        const auto& v = tensors_;
        ops_.LayerNormBackward(v[0], v[1], v[2], v[3], v[4], v[5], true, v[6], v[7], accumulate, stream_);
      };
      return;
    case OpKind::kRmsNormForward:
      Take(op, {written, gamma, saved, rstd});
      run_ = [this] {
        ops_.RmsNormForward(tensors_[0], tensors_[1], 1e-5, tensors_[2], tensors_[3], stream_);
      };
      return;
    default:
      Take(op, {written, saved, gamma, rstd, saved, gradient});
      run_ = [=, this] {
        const auto& v = tensors_;
        ops_.RmsNormBackward(v[0], v[1], v[2], v[3], v[4], true, v[5], accumulate, stream_);
      };
  }
}

void ScratchOp::PrepareRows(const OpDesc& op) {
  const Contents y{1, 0.2, Found::kInCache}, residual{0, 0.1}, bias{0, 0.1};
  if (op.kind == OpKind::kScale) {
    Take(op, {y, y});
    run_ = [this] { ops_.Scale(tensors_[0], 0.5, tensors_[1], stream_); };
    return;
  }
  if (op.kind == OpKind::kResidualAdd) {
    Take(op, {y, residual});
    run_ = [this] { ops_.ResidualAdd(tensors_[0], tensors_[1], stream_); };
    return;
  }
  Take(op, {y, bias, residual});
  run_ = [this] { ops_.BiasResidual(tensors_[0], tensors_[1], tensors_[2], stream_); };
}

void ScratchOp::PrepareActivation(const OpDesc& op) {
  const Activation activation = op.activation;
  if (op.kind == OpKind::kActivationForward) {
    // The bias is zero, since it is added to x in each run.
    Take(op, {{1, 0.2, Found::kInCache}, {0, 0}, {0, 1}});
    run_ = [=, this] { ops_.ActivationForward(activation, tensors_[0], tensors_[1], tensors_[2], stream_); };
    return;
  }
  Take(op, {{1, 0.2}, {0, 1, Found::kInCache}, {0, 1}});
  run_ = [=, this] { ops_.ActivationBackward(activation, tensors_[0], tensors_[1], tensors_[2], stream_); };
}

void ScratchOp::PrepareHeadNorm(const OpDesc& op) {
  // Repeated backwards replace the gradient by a projection of it, which stays as large.
  const Contents written{0, 1, Found::kInCache}, saved{0, 1}, gamma{1, 0}, rstd{1, 0}, gradient{0, 1};
  const std::int64_t heads = op.dims[1], kv_heads = op.dims[3];
  const bool accumulate = op.accumulate;
  if (op.kind == OpKind::kHeadNormForward) {
    Take(op, {written, gamma, gamma, saved, rstd});
    run_ = [=, this] {
      const auto& v = tensors_;
      ops_.HeadNormForward(v[0], heads, kv_heads, v[1], v[2], 1e-5, v[3], v[4], stream_);
    };
    return;
  }
  Take(op, {written, saved, gamma, gamma, rstd, gradient, gradient});
  run_ = [=, this] {
    const auto& v = tensors_;
    ops_.HeadNormBackward(v[0], heads, kv_heads, v[1], v[2], v[3], v[4], v[5], v[6], accumulate, stream_);
  };
}

void ScratchOp::PrepareQkNorm(const OpDesc& op) {
  // As for heads. Sums that become 1/sqrt(sum / width + eps) stay so that results converge; products are 0,
  // so that the gradient stays as it is.
  const Contents written{0, 1, Found::kInCache}, saved{0, 1}, gamma{1, 0}, gradient{0, 1};
  const Contents sums{static_cast<double>(op.dims[1] * op.dims[2]), 0, Found::kInCache},
      ones{1, 0, Found::kInCache}, zeros{0, 0, Found::kInCache};
  const std::int64_t heads = op.dims[1], kv_heads = op.dims[3];
  const bool accumulate = op.accumulate;
  const auto& v = tensors_;
  switch (op.kind) {
    case OpKind::kQkSquares:
      Take(op, {written, sums});
      run_ = [=, this, &v] { ops_.QkSquares(v[0], heads, kv_heads, v[1], stream_); };
      return;
    case OpKind::kQkNormForward:
      Take(op, {written, gamma, gamma, saved, sums});
      run_ = [=, this, &v] {
        ops_.QkNormForward(v[0], heads, kv_heads, 1, v[1], v[2], 1, v[3], v[4], stream_);
      };
      return;
    case OpKind::kQkProducts:
      Take(op, {written, saved, gamma, gamma, ones, zeros});
      run_ = [=, this, &v] { ops_.QkProducts(v[0], heads, kv_heads, v[1], v[2], v[3], v[4], v[5], stream_); };
      return;
    default:
      Take(op, {written, saved, gamma, gamma, ones, zeros, gradient, gradient});
      run_ = [=, this, &v] {
        ops_.QkNormBackward(v[0], heads, kv_heads, 1, v[1], v[2], v[3], v[4], v[5], v[6], v[7], accumulate,
                            stream_);
      };
  }
}

void ScratchOp::PrepareRope(const OpDesc& op) {
  // Of all tokens in one sequence: the same work on the rows, and the maximum on the angles.
  Take(op, {{0, 1, Found::kInCache}});
  run_ = [this, heads = op.dims[1], d = op.dims[2], r = op.dims[3]] {
    ops_.Rope(tensors_[0], heads, d, r, 1e4, false, stream_);
  };
}

void ScratchOp::PrepareAttention(const OpDesc& op) {
  const AttentionForm form = FormOf(op);
  const Contents saved{0, 0.1}, written{0, 0.1, Found::kInCache};
  const Contents lse{std::log(static_cast<double>(op.dims[1])), 0.1};
  if (op.kind == OpKind::kAttentionForward) {
    Take(op, {written, saved, lse, written});
    run_ = [=, this] {
      const auto& v = tensors_;
      ops_.AttentionForward(v[0], form, v[1], v[2], v[3], stream_);
    };
    return;
  }
  Take(op, {saved, saved, lse, written, saved, written});
  run_ = [=, this] {
    const auto& v = tensors_;
    ops_.AttentionBackward(v[0], form, v[1], v[2], v[3], v[4], v[5], stream_);
  };
}

void ScratchOp::PrepareUnfusedAttention(const OpDesc& op) {
  const AttentionForm form = FormOf(op);
  const Contents saved{0, 0.1}, written{0, 0.1, Found::kInCache};
  const double probability = 1 / static_cast<double>(op.dims[1]);
  const Contents probabilities{probability, probability / 2};
  if (op.kind == OpKind::kUnfusedAttentionForward) {
    Take(op, {written, probabilities, saved});
    run_ = [=, this] { ops_.UnfusedAttentionForward(tensors_[0], form, tensors_[1], tensors_[2], stream_); };
    return;
  }
  Take(op, {saved, probabilities, saved, written, saved, saved});
  run_ = [=, this] {
    const auto& v = tensors_;
    ops_.UnfusedAttentionBackward(v[0], form, v[1], v[2], v[3], v[4], v[5], stream_);
  };
}

void ScratchOp::PrepareEmbedding(const OpDesc& op) {
  const bool accumulate = op.accumulate;
  const Contents written{0, 0.1, Found::kInCache}, saved{0, 0.1};
  switch (op.kind) {
    case OpKind::kPositionForward:
      Take(op, {written, saved});
      run_ = [=, this] { ops_.PositionForward(tensors_[0], op.dims[0], 0, tensors_[1], stream_); };
      return;
    case OpKind::kPositionBackward:
      Take(op, {written, saved});
      run_ = [=, this] { ops_.PositionBackward(tensors_[0], tensors_[1], accumulate, stream_); };
      return;
    default: break;
  }
  // The copies have other ids, so that each run finds other rows of the table, which it reads or writes.
  const Contents ids{0, static_cast<double>(op.dims[2])};
  memory_bytes_ += op.dims[0] * op.dims[1] * SizeOf(op.dtype);  // as many elements of the table
  if (op.kind == OpKind::kEmbeddingForward) {
    Take(op, {ids, written, saved});
    run_ = [this] { ops_.EmbeddingForward(tensors_[0], tensors_[1], 0, tensors_[2], stream_); };
    return;
  }
  // A table that is written whole was last used by the optimizer.
  Take(op, {ids, written, accumulate ? written : saved});
  run_ = [=, this] { ops_.EmbeddingBackward(tensors_[0], tensors_[1], 0, tensors_[2], accumulate, stream_); };
}

void ScratchOp::PrepareCrossEntropy(const OpDesc& op) {
  // Values for which each op converges when it runs repeatedly on its own results: s -> exp(s - max), s ->
  // max + log(s) and x -> exp(x - s) all do if max is above 1.6 and s above 1.
  const Contents max{2, 0.3, Found::kInCache}, sums{1.5, 0.3, Found::kInCache}, loss{0, 0, Found::kInCache};
  const std::int64_t v = op.dims[1];
  const Contents logits{0.5, 0.5, Found::kInCache}, targets{0, static_cast<double>(v), Found::kInCache};
  switch (op.kind) {
    case OpKind::kCrossEntropyRescale:
      Take(op, {max, sums});
      run_ = [this] { ops_.CrossEntropyRescale(tensors_[0], tensors_[1], stream_); };
      return;
    case OpKind::kCrossEntropyLoss:
      Take(op, {max, sums, loss});
      run_ = [this] { ops_.CrossEntropyLoss(tensors_[0], tensors_[1], tensors_[2], stream_); };
      return;
    case OpKind::kCrossEntropy:
      Take(op, {logits, targets, loss});
      run_ = [=, this] { ops_.CrossEntropy(tensors_[0], v, tensors_[1], 1.0, tensors_[2], stream_); };
      return;
    case OpKind::kCrossEntropyForward:
      Take(op, {logits, targets, max, sums});
      run_ = [=, this] {
        ops_.CrossEntropyForward(tensors_[0], v, tensors_[1], 0, tensors_[2], tensors_[3], stream_);
      };
      return;
    default:
      // It finds the logits in memory: messages were exchanged since they were written.
      Take(op, {{0.5, 0.5}, sums, targets});
      run_ = [=, this] {
        ops_.CrossEntropyBackward(tensors_[0], v, tensors_[1], tensors_[2], 0, 1.0, stream_);
      };
  }
}

void ScratchOp::PrepareFlat(const OpDesc& op) {
  // A message was just written. Parameters, gradients and states were last used by other layers.
  const Contents x{0.5, 0.5, IsCommunication(op.kind) ? Found::kInCache : Found::kInMemory};
  switch (op.kind) {
    case OpKind::kFill:
      Take(op, {x});
      run_ = [this] { ops_.Fill(tensors_[0], 0, stream_); };
      return;
    case OpKind::kSumOfSquares:
      Take(op, {x, {0, 0}});
      run_ = [this] { ops_.SumOfSquares({&tensors_[0], 1}, tensors_[1], stream_); };
      return;
    case OpKind::kAdamW: {
      const Contents grad{0, 0.1}, master{0.5, 0.5}, m{0, 0.1}, v{1, 0.1};
      Take(op, {x, grad, master, m, v});
      AdamWParams params;
      params.lr = 1e-4;
      run_ = [=, this] {
        const auto& t = tensors_;
        const AdamWTensor all{t[0], t[1], t[2], t[3], t[4], 0.1};
        ops_.AdamW({&all, 1}, params, stream_);
      };
      return;
    }
    default: Take(op, {x});  // communication: the caller runs it on the buffer
  }
}

}  // namespace autocfg::trainer
