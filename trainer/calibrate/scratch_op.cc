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
  arena_.Commit();
  for (const Reservation& r : reservations_) tensors_.push_back(arena_.At(r));
  FillTensors();
}

void ScratchOp::FillTensors() {
  std::vector<std::int32_t> ids;
  std::vector<double> values;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = tensors_[i];
    if (t.data == nullptr) continue;
    const std::size_t n = static_cast<std::size_t>(t.Elements());
    if (t.dtype == DType::kI32) {
      ids.resize(n);
      const auto range = std::max<std::int64_t>(1, static_cast<std::int64_t>(fills_[i].spread));
      for (std::size_t k = 0; k < n; ++k)
        ids[k] = static_cast<std::int32_t>(static_cast<std::int64_t>(k * 7919) % range);
      device_.CopyFromHost(t.data, ids.data(), t.Bytes(), stream_);
      continue;
    }
    const auto value = [&](std::size_t k) {  // evenly distributed, in no simple order
      return fills_[i].value +
             fills_[i].spread * (static_cast<double>(k * kStride % kPeriod) / (kPeriod / 2.0) - 1.0);
    };
    values.resize(std::min(kPeriod, n));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = value(k);
    RepeatFromDoubles(values, t, device_, stream_);
  }
  stream_.Synchronize();
}

void ScratchOp::Add(DType dtype, std::initializer_list<std::int64_t> shape, double value, double spread) {
  reservations_.push_back(arena_.Reserve(Region::kWorkspace, dtype, shape));
  fills_.push_back({value, spread});
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
  if (op.transpose_a)
    Add(op.dtype, {k, m}, 0, 0.5);
  else
    Add(op.dtype, {m, k}, 0, 0.5);
  if (op.transpose_b)
    Add(op.dtype, {n, k}, 0, 0.5);
  else
    Add(op.dtype, {k, n}, 0, 0.5);
  // an accumulated result is a gradient of weights
  Add(accumulate ? StatisticsType(op.dtype) : op.dtype, {m, n}, 0, 0.5);
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
      run_ = [this] { ops_.MatmulBiasGradient(tensors_[0], tensors_[1], tensors_[2], tensors_[3], stream_); };
      return;
  }
  throw BadInput(fmt::format("op \"{}\" cannot be timed: unknown epilogue", ToString(op)));
}

void ScratchOp::PrepareNorm(const OpDesc& op) {
  const std::int64_t t = op.dims[0], h = op.dims[1];
  const DType stat = StatisticsType(op.dtype);
  Add(op.dtype, {t, h}, 0, 1);                                               // x
  Add(op.dtype, {h}, 1, 0.1);                                                // gamma
  Add(op.kind == OpKind::kLayerNormForward ? op.dtype : stat, {h}, 0, 0.1);  // beta or its gradient
  Add(op.dtype, {t, h}, 0, 1);                                               // y or dx
  Add(stat, {t}, 0, 0.1);                                                    // mean
  Add(stat, {t}, 1, 0.1);                                                    // rstd
  if (op.kind == OpKind::kLayerNormForward) {
    run_ = [this] {
      const auto& v = tensors_;
      ops_.LayerNormForward(v[0], v[1], v[2], 1e-5, v[3], v[4], v[5], stream_);
    };
    return;
  }
  Add(op.dtype, {t, h}, 0, 1);  // dy
  Add(stat, {h}, 0, 1);         // dgamma
  run_ = [this] {
    const auto& v = tensors_;
    ops_.LayerNormBackward(v[6], v[0], v[1], v[4], v[5], v[3], true, v[7], v[2], stream_);
  };
}

void ScratchOp::PrepareRmsNorm(const OpDesc& op) {
  const std::int64_t t = op.dims[0], h = op.dims[1];
  Add(op.dtype, {t, h}, 0, 1);                 // x
  Add(op.dtype, {h}, 1, 0.1);                  // gamma
  Add(op.dtype, {t, h}, 0, 1);                 // y or dx
  Add(StatisticsType(op.dtype), {t}, 1, 0.1);  // rstd
  if (op.kind == OpKind::kRmsNormForward) {
    run_ = [this] { ops_.RmsNormForward(tensors_[0], tensors_[1], 1e-5, tensors_[2], tensors_[3], stream_); };
    return;
  }
  Add(op.dtype, {t, h}, 0, 1);               // dy
  Add(StatisticsType(op.dtype), {h}, 0, 1);  // dgamma
  run_ = [this] {
    const auto& v = tensors_;
    ops_.RmsNormBackward(v[4], v[0], v[1], v[3], v[2], true, v[5], stream_);
  };
}

void ScratchOp::PrepareRows(const OpDesc& op) {
  const std::int64_t t = op.dims[0], w = op.dims[1];
  Add(op.dtype, {t, w}, 1, 0.2);
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
  Add(op.dtype, {t, w}, 1, 0.2);
  Add(op.dtype, {t, f}, 0, 1);  // y or dy
  if (op.kind == OpKind::kActivationForward) {
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
  Add(op.dtype, {1, t, heads * d}, 0, 1);
  run_ = [=, this] { ops_.Rope(tensors_[0], heads, d, 1e4, false, stream_); };
}

void ScratchOp::PrepareAttention(const OpDesc& op) {
  const auto [b, s, heads, d, kv_heads] = op.dims;
  const DType stat = StatisticsType(op.dtype);
  const std::int64_t n = heads, g = kv_heads, width = (n + 2 * g) * d;
  Add(op.dtype, {b, s, width}, 0, 0.1);
  Add(op.dtype, {b, s, n * d}, 0, 0.1);
  Add(stat, {b, n, s}, std::log(static_cast<double>(s)), 0.1);
  Add(stat, {AttentionWorkspaceElements(s, d)}, 0, 0.1);
  if (op.kind == OpKind::kAttentionForward) {
    run_ = [=, this] {
      const auto& v = tensors_;
      ops_.AttentionForward(v[0], n, g, v[1], v[2], v[3], stream_);
    };
    return;
  }
  Add(op.dtype, {b, s, n * d}, 0, 0.1);
  Add(op.dtype, {b, s, width}, 0, 0.1);
  run_ = [=, this] {
    const auto& v = tensors_;
    ops_.AttentionBackward(v[0], n, g, v[1], v[2], v[4], v[5], v[3], stream_);
  };
}

void ScratchOp::PrepareEmbedding(const OpDesc& op) {
  const std::int64_t t = op.dims[0], h = op.dims[1];
  const bool forward = op.kind == OpKind::kPositionForward || op.kind == OpKind::kEmbeddingForward;
  const DType table = forward ? op.dtype : StatisticsType(op.dtype);  // or its gradient's type
  if (op.kind == OpKind::kPositionForward || op.kind == OpKind::kPositionBackward) {
    // The op's sizes do not tell how many sequences T covers. One sequence is the same work.
    Add(op.dtype, {1, t, h}, 0, 0.1);
    Add(table, {t, h}, 0, 0.1);
    if (forward) {
      run_ = [this] { ops_.PositionForward(tensors_[0], tensors_[1], stream_); };
    } else {
      run_ = [this] { ops_.PositionBackward(tensors_[0], tensors_[1], stream_); };
    }
    return;
  }
  const std::int64_t v = op.dims[2];
  Add(DType::kI32, {t}, 0, static_cast<double>(v));
  Add(table, {v, h}, 0, 0.1);
  Add(op.dtype, {t, h}, 0, 0.1);
  if (forward) {
    run_ = [this] { ops_.EmbeddingForward(tensors_[0], tensors_[1], 0, tensors_[2], stream_); };
  } else {
    run_ = [this] { ops_.EmbeddingBackward(tensors_[0], tensors_[2], 0, tensors_[1], stream_); };
  }
}

void ScratchOp::PrepareCrossEntropy(const OpDesc& op) {
  const DType stat = StatisticsType(op.dtype);
  const std::int64_t t = op.dims[0];
  // Values for which each op converges when it runs repeatedly on its own results: s -> exp(s - max), s ->
  // max + log(s) and x -> exp(x - s) all do if max is above 1.6 and s above 1.
  Add(stat, {t}, 2, 0.3);
  Add(stat, {2, t}, 1.5, 0.3);
  Add(DType::kF64, {1}, 0, 0);
  if (op.kind == OpKind::kCrossEntropyRescale) {
    run_ = [this] { ops_.CrossEntropyRescale(tensors_[0], tensors_[1], stream_); };
    return;
  }
  if (op.kind == OpKind::kCrossEntropyLoss) {
    run_ = [this] { ops_.CrossEntropyLoss(tensors_[0], tensors_[1], tensors_[2], stream_); };
    return;
  }
  const std::int64_t v = op.dims[1];
  Add(op.dtype, {t, v}, 0.5, 0.5);
  Add(DType::kI32, {t}, 0, static_cast<double>(v));
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
  Add(op.dtype, {n}, 0.5, 0.5);
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
