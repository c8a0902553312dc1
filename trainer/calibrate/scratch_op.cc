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

void CheckForm(const OpDesc& op) {
  OpDesc formed = op;
  SetEpilogue(formed, op.epilogue);
  if (formed != op) {
    throw BadInput(fmt::format("op \"{}\" cannot be timed: its epilogue requires another form of the product",
                               ToString(op)));
  }
}

// The op takes as long with other numbers.
OpArgs ArgsOf(const OpDesc& op) {
  static const RotaryFrequencies frequencies{.theta = 1e4};
  // Sums that become 1/sqrt(sum / width + eps) converge with the eps of the norms of all queries and keys.
  OpArgs args{.eps = op.kind == OpKind::kQkNormForward ? 1 : 1e-5, .factor = 0.5, .add_to_dx = true};
  args.frequencies = &frequencies;
  args.valid = op.dims[1];
  args.softcap = op.softcap ? 30 : 0;
  args.seq_len = op.dims[0];
  // The slopes of a model that has these heads alone.
  if (IsAttention(op.kind))
    args.form = {.heads = op.dims[2],
                 .kv_heads = op.dims[4],
                 .alibi_heads = op.alibi ? op.dims[2] : 0,
                 .softcap = op.softcap ? 30.0 : 0.0,
                 .window = op.window};
  return args;
}

}  // namespace

ScratchOp::ScratchOp(const OpDesc& op, Device& device, Ops& ops, Stream& stream)
    : op_(op), device_(device), ops_(ops), stream_(stream), arena_(device) {
  CheckDims(op);
  CheckForm(op);
  Reserve();
  Allocate();
}

void ScratchOp::Run() {
  UpdateParams params;
  params.lr = 1e-4;
  UpdatedTensor updated;
  OpCall call{.desc = op_, .args = ArgsOf(op_)};
  for (std::size_t i = 0; i < tensors_.size(); ++i) call.operands[i] = &tensors_[i];
  if (op_.kind == OpKind::kSumOfSquares) call.summed = {tensors_.data(), 1};
  if (UpdatesParameters(op_.kind)) {
    const Tensor v = op_.kind == OpKind::kAdamW ? tensors_[4] : Tensor{};
    updated = {tensors_[0], tensors_[1], tensors_[2], tensors_[3], v, 0.1};
    call.updated = {&updated, 1};
    call.params = &params;
  }
  ops_.Issue(call, stream_);
  if (++turn_ == copies_.size()) turn_ = 0;
  tensors_ = copies_[turn_];
}

void ScratchOp::Reserve() {
  const std::vector<Contents> contents = ContentsOf(op_);
  const std::span<const Operand> operands = OperandsOf(op_);
  if (operands.size() != contents.size()) {
    throw std::logic_error(fmt::format("{} of {} operands of {} have contents", contents.size(),
                                       operands.size(), Name(op_.kind)));
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Slot& slot = slots_.emplace_back();
    slot.contents = contents[i];
    if (!operands[i].IsIn(op_)) continue;
    std::vector<std::int64_t> shape;
    for (const char letter : operands[i].shape) shape.push_back(Extent(op_, letter));
    slot.first = arena_.Reserve(Region::kWorkspace, TypeInStep(operands[i].kind, op_), shape);
    if (contents[i].found == Found::kInMemory) memory_bytes_ += slot.first.tensor.Bytes();
  }
  // As many elements of the table as the op finds by its ids.
  if (op_.kind == OpKind::kEmbeddingForward || op_.kind == OpKind::kEmbeddingBackward)
    memory_bytes_ += op_.dims[0] * op_.dims[1] * SizeOf(op_.dtype);
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

std::vector<ScratchOp::Contents> ScratchOp::ContentsOfMatmul(const OpDesc& op) {
  // Of x W and dy W^T, the first operand was just written. Of x^T dy, x was saved by the forward.
  const Contents a{0, 0.5, op.transpose_a ? Found::kInMemory : Found::kInCache};
  const Contents b{0, 0.5, op.transpose_a ? Found::kInCache : Found::kInMemory};
  const Contents c{0, 0.5}, bias{0, 0.1}, rows{0, 1};
  switch (op.epilogue) {
    case Epilogue::kNone: return {a, b, c};
    case Epilogue::kBias: return {a, b, bias, c};
    case Epilogue::kActivation: return {a, b, bias, c, rows};
    case Epilogue::kActivationGradient: return {a, b, {1, 0.2}, c};
    case Epilogue::kBiasGradient: return {a, b, c, bias};
    case Epilogue::kResidual: return {a, b, bias, rows, c};
  }
  throw BadInput(fmt::format("op \"{}\" cannot be timed: unknown epilogue", ToString(op)));
}

std::vector<ScratchOp::Contents> ScratchOp::ContentsOf(const OpDesc& op) {
  const auto dim = [&](std::size_t i) { return static_cast<double>(op.dims[i]); };
  const Contents written{0, 1, Found::kInCache}, saved{0, 1}, gradient{0, 1}, small{0, 0.1}, near_one{1, 0.1};
  // Activations from which a gated activation, or the sum of a residual, stays far from 0.
  const Contents x{1, 0.2, Found::kInCache};
  // Norms of heads: repeated backwards replace the gradient by a projection of it, which stays as large. For
  // all queries and keys, products are 0, so that the gradient stays as it is.
  const Contents one{1, 0}, sums_of_heads{dim(1) * dim(2), 0, Found::kInCache}, ones{1, 0, Found::kInCache},
      zeros{0, 0, Found::kInCache};
  // Attention.
  const Contents recent{0, 0.1, Found::kInCache}, lse{std::log(dim(1)), 0.1};
  const Contents probabilities{1 / dim(1), 0.5 / dim(1)};
  // Cross-entropy: values for which each op converges when it runs repeatedly on its own results.
  // s -> exp(s - max), s -> max + log(s) and x -> exp(x - s) all do if max is above 1.6 and s above 1.
  const Contents max{2, 0.3, Found::kInCache}, sums{1.5, 0.3, Found::kInCache};
  const Contents logits{0.5, 0.5, Found::kInCache}, targets{0, dim(1), Found::kInCache};
  // The copies have other ids, so that each run finds other rows of the table, which it reads or writes.
  const Contents ids{0, dim(2)};
  // Parameters, gradients and states were last used by other layers.
  const Contents state{0.5, 0.5};
  switch (op.kind) {
    case OpKind::kMatmul: return ContentsOfMatmul(op);
    case OpKind::kLayerNormForward: return {written, near_one, small, saved, small, near_one};
    case OpKind::kLayerNormBackward:
      return {written, saved, near_one, small, near_one, saved, gradient, gradient};
    case OpKind::kRmsNormForward: return {written, near_one, saved, near_one};
    case OpKind::kRmsNormBackward: return {written, saved, near_one, near_one, saved, gradient};
    case OpKind::kBiasResidual: return {x, small, small};
    case OpKind::kResidualAdd: return {x, small};
    case OpKind::kScale:
    case OpKind::kCopyColumns: return {x, x};
    case OpKind::kActivationForward: return {x, {0, 0}, saved};  // the bias is added to x in each run
    case OpKind::kActivationBackward: return {{1, 0.2}, written, saved};
    case OpKind::kHeadNormForward: return {written, one, one, saved, one};
    case OpKind::kHeadNormBackward: return {written, saved, one, one, one, gradient, gradient};
    case OpKind::kQkSquares: return {written, sums_of_heads};
    case OpKind::kQkNormForward: return {written, one, one, saved, sums_of_heads};
    case OpKind::kQkProducts: return {written, saved, one, one, ones, zeros};
    case OpKind::kQkNormBackward: return {written, saved, one, one, ones, zeros, gradient, gradient};
    case OpKind::kRope: return {written};
    case OpKind::kAttentionForward: return {recent, small, lse, recent};
    case OpKind::kAttentionBackward: return {small, small, lse, recent, small, recent};
    case OpKind::kUnfusedAttentionForward: return {recent, probabilities, small};
    case OpKind::kUnfusedAttentionBackward: return {small, probabilities, small, recent, small, small};
    case OpKind::kEmbeddingForward: return {ids, recent, small};
    // A table that is written whole was last used by the optimizer.
    case OpKind::kEmbeddingBackward: return {ids, recent, op.accumulate ? recent : small};
    case OpKind::kPositionForward:
    case OpKind::kPositionBackward: return {recent, small};
    case OpKind::kCrossEntropy: return {logits, targets, zeros};
    case OpKind::kCrossEntropyForward: return {logits, targets, max, sums};
    case OpKind::kCrossEntropyRescale: return {max, sums};
    case OpKind::kCrossEntropyLoss: return {max, sums, zeros};
    // It finds the logits in memory: messages were exchanged since they were written.
    case OpKind::kCrossEntropyBackward: return {{0.5, 0.5}, sums, targets};
    case OpKind::kFill: return {state};
    case OpKind::kSumOfSquares: return {state, {0, 0}};
    case OpKind::kAdamW: return {state, small, state, small, near_one};
    case OpKind::kSgd: return {state, small, state, small};
    case kFirstCommunication ... kLastCommunication:
      return {{0.5, 0.5, Found::kInCache}};  // a message was just written
  }
  throw BadInput(fmt::format("op \"{}\" cannot be timed: unknown kind", ToString(op)));
}

}  // namespace autocfg::trainer
