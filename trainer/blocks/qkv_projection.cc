#include "trainer/blocks/qkv_projection.h"

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

Tensor QkvProjection::Backward(const Execution& run, const Tensor& x, const Tensor& dqkv, Gradients gradients,
                               bool accumulate) const {
  const Tensor& whole = workspace_.whole;
  if (!shares_heads()) return ColumnParallelBackward(run, whole_, x, dqkv, whole, gradients, accumulate);
  run.ops.TakeColumns(dqkv, q().shape[1], kv(), run.stream);
  run.ops.TakeColumns(dqkv, 0, q(), run.stream);
  if (OfWeights(gradients)) {
    const Tensor all = GatherRows(run, x, whole);
    LinearGradient(run, key_value_, all, kv(), accumulate);
    LinearGradient(run, query_, all, q(), accumulate);
  }
  Tensor dx = ReducedRows(run, whole);
  if (!OfInputs(gradients)) return dx;
  ReducedProduct(run, {{kv(), key_value_.weight.value}, {q(), query_.weight.value}}, Transpose::kYes, whole,
                 dx);
  return dx;
}

}  // namespace autocfg::trainer
