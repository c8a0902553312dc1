#include "search/blocks/op_lister.h"

#include <stdexcept>
#include <utility>

#include "search/plan/placement.h"
#include "search/shapes/token_chunks.h"

namespace autocfg {
namespace {

OpKind ForwardOf(Norm norm) {
  switch (norm) {
    case Norm::kLayerNorm: return OpKind::kLayerNormForward;
    case Norm::kRmsNorm: return OpKind::kRmsNormForward;
  }
  throw std::logic_error("a norm without an op");
}

OpKind BackwardOf(Norm norm) {
  switch (norm) {
    case Norm::kLayerNorm: return OpKind::kLayerNormBackward;
    case Norm::kRmsNorm: return OpKind::kRmsNormBackward;
  }
  throw std::logic_error("a norm without an op");
}

}  // namespace

OpLister::OpLister(const RunView& run) : dims(LocalDimsOf(run)), run_(run) {}

void OpLister::Append(OpDesc op) {
  if (UsesGradients(op)) op.gradients = GradientsOfOps(types());
  ops.push_back(op);
}

void OpLister::Add(OpKind kind, DType type, std::array<std::int64_t, 5> sizes) {
  Append({.kind = kind, .dtype = type, .dims = sizes});
}

void OpLister::Matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, bool accumulate) {
  OpDesc op{.kind = OpKind::kMatmul, .dtype = types().compute, .dims = {m, n, k}};
  op.transpose_a = ta;
  op.transpose_b = tb;
  op.accumulate = accumulate;
  Append(op);
}

void OpLister::Matmul(Epilogue epilogue, std::int64_t m, std::int64_t n, std::int64_t k, bool bias) {
  Matmul(m, n, k);
  SetEpilogue(ops.back(), epilogue);
  if (HasActivation(ops.back())) ops.back().activation = model().activation;
  ops.back().bias = TakesBias(ops.back()) && bias;
}

void OpLister::WeightGradient(std::int64_t rows, std::int64_t columns, bool accumulate) {
  Matmul(rows, columns, dims.tokens, true, false, Adds(accumulate));
}

void OpLister::LinearGradient(std::int64_t rows, std::int64_t columns, bool accumulate, bool bias) {
  if (!bias) return WeightGradient(rows, columns, accumulate);
  Matmul(Epilogue::kBiasGradient, rows, columns, dims.tokens, bias);
  ops.back().accumulate = Adds(accumulate);
  ops.back().gradients = GradientsOfOps(types());
}

bool OpLister::Adds(bool accumulate) const { return accumulate && !ShardsGradients(plan()); }

void OpLister::NormForward() { OwnRows(ForwardOf(model().norm)); }

void OpLister::NormBackward(bool accumulate) {
  OwnRows(BackwardOf(model().norm));
  ops.back().accumulate = accumulate;
}

void OpLister::TensorReduce(OpKind kind, DType type, std::int64_t n) {
  if (plan().tp > 1) ops.push_back(CommunicationOp(kind, type, CommGroup::kTensor, plan().tp, n));
}

void OpLister::GatherHidden() {
  if (SplitsSequence(plan())) TensorReduce(OpKind::kAllGather, types().compute, dims.tokens * dims.hidden);
}

void OpLister::ReduceHidden(std::int64_t tokens) {
  TensorReduce(SplitsSequence(plan()) ? OpKind::kReduceScatter : OpKind::kAllReduceSum, types().compute,
               tokens * dims.hidden);
}

void OpLister::ReducedProduct(std::initializer_list<std::int64_t> inner, bool tb) {
  const std::int64_t chunks = TensorChunks(plan());
  const auto multiply = [&](std::int64_t rows) {
    bool accumulate = false;
    for (const std::int64_t k : inner)
      Matmul(rows, dims.hidden, k, false, tb, std::exchange(accumulate, true));
  };
  if (chunks == 1) {
    multiply(dims.tokens);
    return ReduceHidden();
  }
  // A chunk has one piece in the rows of each rank.
  const std::int64_t pieces = SplitsSequence(plan()) ? plan().tp : 1;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t rows = ChunkOfRows(dims.rows, chunks, i).Count();
    if (rows == 0) continue;
    for (std::int64_t piece = 0; piece < pieces; ++piece) multiply(rows);
    ReduceHidden(pieces * rows);
  }
}

}  // namespace autocfg
