#include "trainer/calibrate/scratch_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "search/ops/memory_sizes.h"
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

// Returns the type of statistics and of parameter gradients (search/plan/workload.h: Precision).
DType StatisticsType(DType compute) { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }

void CheckDims(const OpDesc& op) {
  for (int i = 0; i < DimCount(op.kind); ++i) {
    if (op.dims[i] < 1 || op.dims[i] > kMaxDim) {
      throw BadInput(
          fmt::format("op \"{}\" cannot be timed: its size {} is {}", ToString(op), i, op.dims[i]));
    }
  }
}

}  // namespace

ScratchOp::ScratchOp(const OpDesc& op, Device& device, Ops& ops, Stream& stream)
    : device_(device), ops_(ops), stream_(stream), arena_(device) {
  CheckDims(op);
  Prepare(op);
  Allocate();
}

void ScratchOp::Add(DType dtype, std::initializer_list<std::int64_t> shape, double value, double spread,
                    Found found) {
  operands_.push_back({arena_.Reserve(Region::kWorkspace, dtype, shape), value, spread, found});
  if (found == Found::kInMemory) memory_bytes_ += operands_.back().first.tensor.Bytes();
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
    for (const Operand& operand : operands_) {
      const bool own = copy > 0 && operand.found == Found::kInMemory;
      reserved[copy].push_back(own ? arena_.ReserveLike(operand.first) : operand.first);
    }
  }
  arena_.Commit();
  for (const std::vector<Reservation>& each : reserved) {
    std::vector<Tensor>& tensors = copies_.emplace_back();
    for (const Reservation& r : each) tensors.push_back(arena_.At(r));
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Tensor& first = copies_[0][i];
    if (first.data == nullptr) continue;
    const bool ids = first.dtype == DType::kI32;
    if (!ids) FillNumbers(operands_[i], first);
    for (std::size_t copy = 0; copy < copies_.size(); ++copy) {
      const Tensor& tensor = copies_[copy][i];
      if (copy > 0 && tensor.data == first.data) continue;
      if (ids) {
        FillIds(operands_[i], tensor, copy);
      } else if (copy > 0) {
        device_.CopyWithin(tensor.data, first.data, first.Bytes(), stream_);
      }
    }
  }
  stream_.Synchronize();
  tensors_ = copies_[0];
}

void ScratchOp::FillIds(const Operand& operand, const Tensor& tensor, std::size_t copy) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tensor.Elements()));
  const auto range = std::max<std::int64_t>(1, static_cast<std::int64_t>(operand.spread));
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids[k] = static_cast<std::int32_t>(static_cast<std::int64_t>((k + copy * ids.size()) * 7919) % range);
  device_.CopyFromHost(tensor.data, ids.data(), tensor.Bytes(), stream_);
}

void ScratchOp::FillNumbers(const Operand& operand, const Tensor& tensor) {
  const auto value = [&](std::size_t k) {  // evenly distributed, in no simple order
    return operand.value +
           operand.spread * (static_cast<double>(k * kStride % kPeriod) / (kPeriod / 2.0) - 1.0);
  };
  std::vector<double> values(std::min(kPeriod, static_cast<std::size_t>(tensor.Elements())));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = value(k);
  RepeatFromDoubles(values, tensor, device_, stream_);
}

void ScratchOp::Prepare(const OpDesc& op) {
  if (IsPredictedOnly(op.kind)) {
    throw BadInput(fmt::format("op \"{}\" cannot be timed: {} is supported in predictions only", ToString(op),
                               Name(op.kind)));
  }
  switch (op.kind) {
    case OpKind::kMatmul: return PrepareMatmul(op);
    case OpKind::kLayerNormForward:
    case OpKind::kLayerNormBackward: return PrepareNorm(op);
    case OpKind::kRmsNormForward:
    case OpKind::kRmsNormBackward: return PrepareRmsNorm(op);
    case OpKind::kBiasResidual:
    case OpKind::kResidualAdd: return PrepareRows(op);
    case OpKind::kActivationForward:
    case OpKind::kActivationBackward: return PrepareActivation(op);
    case OpKind::kRope: return PrepareRope(op);
    case OpKind::kAttentionForward:
    case OpKind::kAttentionBackward: return PrepareAttention(op);
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
    case OpKind::kRecv: return PrepareFlat(op);
    case OpKind::kUnfusedAttentionForward:
    case OpKind::kUnfusedAttentionBackward:
    case OpKind::kAllGather: break;  // predicted only
  }
  throw BadInput(fmt::format("op \"{}\" cannot be timed: unknown kind", ToString(op)));
}

void ScratchOp::PrepareMatmul(const OpDesc& op) {
  const std::int64_t m = op.dims[0], n = op.dims[1], k = op.dims[2];
  const Transpose ta{op.transpose_a}, tb{op.transpose_b};
  const bool accumulate = op.accumulate;
  // Of x W and dy W^T, the first operand was just written. Of x^T dy, x was saved by the forward.
  const Found found_a = op.transpose_a ? Found::kInMemory : Found::kInCache;
  const Found found_b = op.transpose_a ? Found::kInCache : Found::kInMemory;
  if (op.transpose_a)
    Add(op.dtype, {k, m}, 0, 0.5, found_a);
  else
    Add(op.dtype, {m, k}, 0, 0.5, found_a);
  if (op.transpose_b)
    Add(op.dtype, {n, k}, 0, 0.5, found_b);
  else
    Add(op.dtype, {k, n}, 0, 0.5, found_b);
  Add(op.transpose_a ? StatisticsType(op.dtype) : op.dtype, {m, n}, 0, 0.5);  // x^T dy: a gradient of weights
  if (op.epilogue != Epilogue::kNone) return PrepareEpilogue(op);
  run_ = [=, this] { ops_.Matmul(tensors_[0], ta, tensors_[1], tb, tensors_[2], accumulate, stream_); };
}

// Call after the product's own tensors were added: a, b and c, or x, dy and dw.
void ScratchOp::PrepareEpilogue(const OpDesc& op) {
  const std::int64_t m = op.dims[0], n = op.dims[1];
  OpDesc formed = op;
  SetEpilogue(formed, op.epilogue);
  if (formed != op) {
    throw BadInput(fmt::format("op \"{}\" cannot be timed: its epilogue requires another form of the product",
                               ToString(op)));
  }
  const Activation activation = op.activation;
  switch (op.epilogue) {
    case Epilogue::kNone: break;
    case Epilogue::kBias:
      Add(op.dtype, {n}, 0, 0.1);
      run_ = [this] { ops_.MatmulBias(tensors_[0], tensors_[1], tensors_[3], tensors_[2], stream_); };
      return;
    case Epilogue::kActivation: {
      const bool bias = op.bias;
      Add(op.dtype, {m, n}, 0, 1);
      if (bias) Add(op.dtype, {n}, 0, 0.1);
      run_ = [=, this] {
        const auto& v = tensors_;
        ops_.MatmulActivation(activation, v[0], v[1], bias ? v[4] : Tensor{}, v[2], v[3], stream_);
      };
      return;
    }
    case Epilogue::kActivationGradient:
      Add(op.dtype, {m, n}, 1, 0.2);
      run_ = [=, this] {
        ops_.MatmulActivationBackward(activation, tensors_[0], tensors_[1], tensors_[3], tensors_[2],
                                      stream_);
      };
      return;
    case Epilogue::kResidual: {
      const bool bias = op.bias;
      Add(op.dtype, {m, n}, 0, 1);
      if (bias) Add(op.dtype, {n}, 0, 0.1);
      run_ = [=, this] {
        const auto& v = tensors_;
        ops_.MatmulResidual(v[0], v[1], bias ? v[4] : Tensor{}, v[3], v[2], stream_);
      };
      return;
    }
    case Epilogue::kBiasGradient:
      Add(StatisticsType(op.dtype), {n}, 0, 0.1);
      run_ = [this, accumulate = op.accumulate] {
        ops_.MatmulBiasGradient(tensors_[0], tensors_[1], tensors_[2], tensors_[3], accumulate, stream_);
      };
      return;
  }
  throw BadInput(fmt::format("op \"{}\" cannot be timed: unknown epilogue", ToString(op)));
}

void ScratchOp::PrepareNorm(const OpDesc& op) {
  const std::int64_t t = op.dims[0], h = op.dims[1];
  const DType stat = StatisticsType(op.dtype);
  const bool forward = op.kind == OpKind::kLayerNormForward;
  Add(op.dtype, {t, h}, 0, 1, forward ? Found::kInCache : Found::kInMemory);  // x
  Add(op.dtype, {h}, 1, 0.1);                                                 // gamma
  Add(forward ? op.dtype : stat, {h}, 0, 0.1);                                // beta or its gradient
  Add(op.dtype, {t, h}, 0, 1);                                                // y or dx
  Add(stat, {t}, 0, 0.1);                                                     // mean
  Add(stat, {t}, 1, 0.1);                                                     // rstd
  if (forward) {
    run_ = [this] {
      const auto& v = tensors_;
      ops_.LayerNormForward(v[0], v[1], v[2], 1e-5, v[3], v[4], v[5], stream_);
    };
    return;
  }
  Add(op.dtype, {t, h}, 0, 1, Found::kInCache);  // dy
  Add(stat, {h}, 0, 1);                          // dgamma
  run_ = [this, accumulate = op.accumulate] {
    const auto& v = tensors_;
    ops_.LayerNormBackward(v[6], v[0], v[1], v[4], v[5], v[3], true, v[7], v[2], accumulate, stream_);
  };
}

void ScratchOp::PrepareRmsNorm(const OpDesc& op) {
  const std::int64_t t = op.dims[0], h = op.dims[1];
  const bool forward = op.kind == OpKind::kRmsNormForward;
  Add(op.dtype, {t, h}, 0, 1, forward ? Found::kInCache : Found::kInMemory);  // x
  Add(op.dtype, {h}, 1, 0.1);                                                 // gamma
  Add(op.dtype, {t, h}, 0, 1);                                                // y or dx
  Add(StatisticsType(op.dtype), {t}, 1, 0.1);                                 // rstd
  if (forward) {
    run_ = [this] { ops_.RmsNormForward(tensors_[0], tensors_[1], 1e-5, tensors_[2], tensors_[3], stream_); };
    return;
  }
  Add(op.dtype, {t, h}, 0, 1, Found::kInCache);  // dy
  Add(StatisticsType(op.dtype), {h}, 0, 1);      // dgamma
  run_ = [this, accumulate = op.accumulate] {
    const auto& v = tensors_;
    ops_.RmsNormBackward(v[4], v[0], v[1], v[3], v[2], true, v[5], accumulate, stream_);
  };
}

void ScratchOp::PrepareRows(const OpDesc& op) {
  const std::int64_t t = op.dims[0], w = op.dims[1];
  Add(op.dtype, {t, w}, 1, 0.2, Found::kInCache);
  Add(op.dtype, {t, w}, 0, 0.1);
  if (op.kind == OpKind::kResidualAdd) {
    run_ = [this] { ops_.ResidualAdd(tensors_[0], tensors_[1], stream_); };
    return;
  }
  Add(op.dtype, {w}, 0, 0.1);
  run_ = [this] { ops_.BiasResidual(tensors_[0], tensors_[2], tensors_[1], stream_); };
}

void ScratchOp::PrepareActivation(const OpDesc& op) {
  const std::int64_t t = op.dims[0], f = op.dims[1], w = 2 * f;
  const Activation activation = op.activation;
  const bool forward = op.kind == OpKind::kActivationForward;
  Add(op.dtype, {t, w}, 1, 0.2, forward ? Found::kInCache : Found::kInMemory);  // x
  Add(op.dtype, {t, f}, 0, 1, forward ? Found::kInMemory : Found::kInCache);    // y or dy
  if (forward) {
    const bool bias = op.bias;
    if (bias) Add(op.dtype, {w}, 0, 0);  // zero, since added values accumulate
    run_ = [=, this] {
      ops_.ActivationForward(activation, tensors_[0], bias ? tensors_[2] : Tensor{}, tensors_[1], stream_);
    };
    return;
  }
  Add(op.dtype, {t, w}, 0, 1);
  run_ = [=, this] { ops_.ActivationBackward(activation, tensors_[0], tensors_[1], tensors_[2], stream_); };
}

void ScratchOp::PrepareRope(const OpDesc& op) {
  const std::int64_t t = op.dims[0], heads = op.dims[1], d = op.dims[2];
  // The op's sizes do not tell how many sequences T covers. One sequence is the same work on the rows, and
  // the maximum on the angles.
  Add(op.dtype, {1, t, heads * d}, 0, 1, Found::kInCache);
  run_ = [=, this] { ops_.Rope(tensors_[0], heads, d, 1e4, false, stream_); };
}

void ScratchOp::PrepareAttention(const OpDesc& op) {
  const auto [b, s, heads, d, kv_heads] = op.dims;
  const DType stat = StatisticsType(op.dtype);
  const std::int64_t n = heads, g = kv_heads, width = (n + 2 * g) * d;
  const bool forward = op.kind == OpKind::kAttentionForward;
  Add(op.dtype, {b, s, width}, 0, 0.1, forward ? Found::kInCache : Found::kInMemory);  // qkv
  Add(op.dtype, {b, s, n * d}, 0, 0.1);                                                // out
  Add(stat, {b, n, s}, std::log(static_cast<double>(s)), 0.1);                         // lse
  Add(stat, {AttentionWorkspaceElements(s, d)}, 0, 0.1, Found::kInCache);
  if (forward) {
    run_ = [=, this] {
      const auto& v = tensors_;
      ops_.AttentionForward(v[0], n, g, v[1], v[2], v[3], stream_);
    };
    return;
  }
  Add(op.dtype, {b, s, n * d}, 0, 0.1, Found::kInCache);  // dout
  Add(op.dtype, {b, s, width}, 0, 0.1);                   // dqkv
  run_ = [=, this] {
    const auto& v = tensors_;
    ops_.AttentionBackward(v[0], n, g, v[1], v[2], v[4], v[5], v[3], stream_);
  };
}

void ScratchOp::PrepareEmbedding(const OpDesc& op) {
  const std::int64_t t = op.dims[0], h = op.dims[1];
  const bool forward = op.kind == OpKind::kPositionForward || op.kind == OpKind::kEmbeddingForward;
  const bool accumulate = op.accumulate;
  const DType table = forward ? op.dtype : StatisticsType(op.dtype);  // or its gradient's type
  if (op.kind == OpKind::kPositionForward || op.kind == OpKind::kPositionBackward) {
    // The op's sizes do not tell how many sequences T covers. One sequence is the same work.
    Add(op.dtype, {1, t, h}, 0, 0.1, Found::kInCache);
    Add(table, {t, h}, 0, 0.1);
    if (forward) {
      run_ = [this] { ops_.PositionForward(tensors_[0], tensors_[1], stream_); };
    } else {
      run_ = [=, this] { ops_.PositionBackward(tensors_[0], tensors_[1], accumulate, stream_); };
    }
    return;
  }
  const std::int64_t v = op.dims[2];
  // The copies have other ids, so that each run finds other rows of the table, which it reads or writes.
  Add(DType::kI32, {t}, 0, static_cast<double>(v));
  // One that is written whole was last used by the optimizer.
  const bool whole = op.kind == OpKind::kEmbeddingBackward && !accumulate;
  Add(table, {v, h}, 0, 0.1, whole ? Found::kInMemory : Found::kInCache);
  Add(op.dtype, {t, h}, 0, 0.1, forward ? Found::kInMemory : Found::kInCache);
  memory_bytes_ += operands_.back().first.tensor.Bytes();  // as many elements of the table
  if (forward) {
    run_ = [this] { ops_.EmbeddingForward(tensors_[0], tensors_[1], 0, tensors_[2], stream_); };
  } else {
    run_ = [=, this] {
      ops_.EmbeddingBackward(tensors_[0], tensors_[2], 0, tensors_[1], accumulate, stream_);
    };
  }
}

void ScratchOp::PrepareCrossEntropy(const OpDesc& op) {
  const DType stat = StatisticsType(op.dtype);
  const std::int64_t t = op.dims[0];
  // Values for which each op converges when it runs repeatedly on its own results: s -> exp(s - max), s ->
  // max + log(s) and x -> exp(x - s) all do if max is above 1.6 and s above 1.
  Add(stat, {t}, 2, 0.3, Found::kInCache);
  Add(stat, {2, t}, 1.5, 0.3, Found::kInCache);
  Add(DType::kF64, {1}, 0, 0, Found::kInCache);
  if (op.kind == OpKind::kCrossEntropyRescale) {
    run_ = [this] { ops_.CrossEntropyRescale(tensors_[0], tensors_[1], stream_); };
    return;
  }
  if (op.kind == OpKind::kCrossEntropyLoss) {
    run_ = [this] { ops_.CrossEntropyLoss(tensors_[0], tensors_[1], tensors_[2], stream_); };
    return;
  }
  const std::int64_t v = op.dims[1];
  // The last step of the loss finds the logits in memory: messages were exchanged since they were written.
  Add(op.dtype, {t, v}, 0.5, 0.5,
      op.kind == OpKind::kCrossEntropyBackward ? Found::kInMemory : Found::kInCache);
  Add(DType::kI32, {t}, 0, static_cast<double>(v), Found::kInCache);
  switch (op.kind) {
    case OpKind::kCrossEntropy:
      run_ = [=, this] { ops_.CrossEntropy(tensors_[3], v, tensors_[4], 1.0, tensors_[2], stream_); };
      return;
    case OpKind::kCrossEntropyForward:
      run_ = [=, this] {
        ops_.CrossEntropyForward(tensors_[3], v, tensors_[4], 0, tensors_[0], tensors_[1], stream_);
      };
      return;
    default:
      run_ = [=, this] {
        ops_.CrossEntropyBackward(tensors_[3], v, tensors_[1], tensors_[4], 0, 1.0, stream_);
      };
  }
}

void ScratchOp::PrepareFlat(const OpDesc& op) {
  const std::int64_t n = op.dims[0];
  // A message was just written. Parameters, gradients and states were last used by other layers.
  Add(op.dtype, {n}, 0.5, 0.5, IsCommunication(op.kind) ? Found::kInCache : Found::kInMemory);
  switch (op.kind) {
    case OpKind::kFill: run_ = [this] { ops_.Fill(tensors_[0], 0, stream_); }; return;
    case OpKind::kSumOfSquares:
      Add(DType::kF64, {1}, 0, 0);
      run_ = [this] { ops_.SumOfSquares({&tensors_[0], 1}, tensors_[1], stream_); };
      return;
    case OpKind::kAdamW: {
      const DType stat = StatisticsType(op.dtype);
      const bool master = op.master_weights;
      Add(stat, {n}, 0, 0.1);  // gradient
      Add(stat, {n}, 0, 0.1);  // m
      Add(stat, {n}, 1, 0.1);  // v
      if (master) Add(stat, {n}, 0.5, 0.5);
      AdamWParams params;
      params.lr = 1e-4;
      run_ = [=, this] {
        const auto& v = tensors_;
        const AdamWTensor all{v[0], v[1], master ? v[4] : Tensor{}, v[2], v[3], 0.1};
        ops_.AdamW({&all, 1}, params, stream_);
      };
      return;
    }
    default: return;  // communication: the caller runs it on the buffer
  }
}

}  // namespace autocfg::trainer
