#include "trainer/model/qkv_projection.h"

#include "trainer/parallel/parallel_linear.h"
#include "trainer/parallel/reduced_product.h"
#include "trainer/parallel/token_rows.h"

namespace autocfg::trainer {

using Kind = ParameterKind;

QkvProjection::QkvProjection(const MemoryLayout& layout, std::int64_t layer)
    : workspace_(layout.workspace()),
      whole_{layout.Find(Kind::kQkvWeight, layer), layout.Find(Kind::kQkvBias, layer)},
      key_value_{layout.Find(Kind::kKeyValueWeight, layer), layout.Find(Kind::kKeyValueBias, layer)},
      query_{layout.Find(Kind::kQueryWeight, layer), layout.Find(Kind::kQueryBias, layer)} {}

void QkvProjection::Forward(const Execution& run, const Tensor& x, const Tensor& qkv) const {
  if (!shares_heads()) return ColumnParallelForward(run, whole_, x, workspace_.whole, qkv);
  const Tensor all = GatherRows(run, x, workspace_.whole);
  LinearForward(run, key_value_, all, kv());
  run.ops.PutColumns(kv(), qkv, q().shape[1], run.stream);
  LinearForward(run, query_, all, q());
  run.ops.PutColumns(q(), qkv, 0, run.stream);
}

void QkvProjection::TakeParts(const Execution& run, const Tensor& dqkv) const {
  run.ops.TakeColumns(dqkv, q().shape[1], kv(), run.stream);
  run.ops.TakeColumns(dqkv, 0, q(), run.stream);
}

void QkvProjection::PartGradients(const Execution& run, const Tensor& x, bool accumulate) const {
  const Tensor all = GatherRows(run, x, workspace_.whole);
  LinearGradient(run, key_value_, all, kv(), accumulate);
  LinearGradient(run, query_, all, q(), accumulate);
}

Tensor QkvProjection::PartInputGradient(const Execution& run) const {
  const Tensor& whole = workspace_.whole;
  Tensor dx = ReducedRows(run, whole);
  ReducedProduct(run, {{kv(), key_value_.weight.value}, {q(), query_.weight.value}}, Transpose::kYes, whole,
                 dx);
  return dx;
}

Tensor QkvProjection::Backward(const Execution& run, const Tensor& x, const Tensor& dqkv,
                               bool accumulate) const {
  if (!shares_heads()) return ColumnParallelBackward(run, whole_, x, dqkv, workspace_.whole, accumulate);
  TakeParts(run, dqkv);
  PartGradients(run, x, accumulate);
  return PartInputGradient(run);
}

void QkvProjection::WeightGradient(const Execution& run, const Tensor& x, const Tensor& dqkv,
                                   bool accumulate) const {
  if (!shares_heads())
    return ColumnParallelWeightGradient(run, whole_, x, dqkv, workspace_.whole, accumulate);
  TakeParts(run, dqkv);
  PartGradients(run, x, accumulate);
}

Tensor QkvProjection::InputGradient(const Execution& run, const Tensor& dqkv) const {
  if (!shares_heads()) return ColumnParallelInputGradient(run, whole_, dqkv, workspace_.whole);
  TakeParts(run, dqkv);
  return PartInputGradient(run);
}

}  // namespace autocfg::trainer
