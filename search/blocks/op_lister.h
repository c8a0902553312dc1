// Appends the ops of a rank to a list, in the notation of docs/engine.md: products with their epilogues,
// norms, and the collectives of the tensor group. Blocks (residual_block.h, embedding.h, head.h) are written
// in it.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/run_view.h"
#include "search/shapes/local_dims.h"

namespace autocfg {

class OpLister {
 public:
  // Refers to the parts of `run`.
  explicit OpLister(const RunView& run);

  const ModelSpec& model() const { return run_.model; }
  const ParallelPlan& plan() const { return run_.plan; }
  const Precision& types() const { return run_.workload.precision; }

  // An op of its own type or another one. The rows are those of all tokens, or the rank's own ones, which it
  // works on outside of the tensor-parallel ops.
  void Add(OpKind kind, DType type, std::array<std::int64_t, 5> dims);
  void Rows(OpKind kind, std::int64_t width) { Add(kind, types().compute, {dims.tokens, width}); }
  void OwnRows(OpKind kind) { Add(kind, types().compute, {dims.rows, dims.hidden}); }

  void Matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool ta = false, bool tb = false,
              bool accumulate = false);
  // `bias`: whether the linear layer has one.
  void Matmul(Epilogue epilogue, std::int64_t m, std::int64_t n, std::int64_t k, bool bias);
  // y = x W, plus the bias if there is one, of T tokens.
  void Linear(std::int64_t width, std::int64_t inner, bool bias) {
    Matmul(bias ? Epilogue::kBias : Epilogue::kNone, dims.tokens, width, inner, bias);
  }
  // dW[rows of dW, columns] (+)= x^T dy over T tokens, for a matrix without a bias.
  void WeightGradient(std::int64_t rows, std::int64_t columns, bool accumulate);
  // As above for a linear layer, including its bias gradient.
  void LinearGradient(std::int64_t rows, std::int64_t columns, bool accumulate, bool bias);
  // Whether a weight's gradient is added to that of earlier microbatches where it is computed.
  bool Adds(bool accumulate) const;

  void NormForward();
  void NormBackward(bool accumulate);

  // ar(x): only if there is a tensor group.
  void TensorReduce(OpKind kind, DType type, std::int64_t n);
  // gather(x), reduce(x) of hidden values.
  void GatherHidden();
  void ReduceHidden() { ReduceHidden(dims.tokens); }
  // The sum of products [T, k] x [k, H], or with a transposed second factor, and reduce() of it, in chunks.
  void ReducedProduct(std::initializer_list<std::int64_t> inner, bool tb);
  void ReducedProduct(std::int64_t k, bool tb) { ReducedProduct({k}, tb); }

  const LocalDims dims;
  std::vector<OpDesc> ops;

 private:
  void Append(OpDesc op);
  void ReduceHidden(std::int64_t tokens);

  const RunView run_;
};

}  // namespace autocfg
