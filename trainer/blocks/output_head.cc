#include "trainer/blocks/output_head.h"

#include "search/plan/model_stages.h"
#include "trainer/parallel/reduced_product.h"
#include "trainer/parallel/token_rows.h"
#include "trainer/parallel/unit_exchange.h"
#include "trainer/parallel/vocab_parallel.h"

namespace autocfg::trainer {

using Kind = ParameterKind;

namespace {

// The step's loss is the mean over all tokens of the global batch.
double LossScale(const Workload& workload) {
  return 1.0 / (static_cast<double>(workload.global_batch) * static_cast<double>(workload.seq_len));
}

}  // namespace

OutputHead::OutputHead(const RankShape& shape, const MemoryLayout& layout)
    : shape_(shape),
      workspace_(layout.workspace()),
      output_(layout.Find(shape.model.tied_embeddings ? Kind::kTokenEmbedding : Kind::kOutputLayer)),
      norm_(shape, layout, Kind::kFinalNormWeight, Kind::kFinalNormBias) {}

// The scale of the logits is applied to the rows that they are computed from, which are fewer.
void OutputHead::Scale(const Execution& run, const Tensor& rows) const {
  const double scale = shape_.model.logit_scale;
  if (scale != 1) run.ops.Scale(rows, scale, rows, run.stream);
}

void OutputHead::Forward(const Execution& run, const HeadActivations& head, const Tensor& loss) const {
  run.units->Read(run, output_.unit);
  norm_.Forward(run, head.x_final, head.ln, head.norm);
  Scale(run, head.ln);
  const Tensor ln = GatherRows(run, head.ln, workspace_.whole);
  run.ops.Matmul(ln, Transpose::kNo, output_.value, Transpose::kYes, head.logits, false, run.stream);
  VocabParallelCrossEntropyForward(run, shape_, head, LossScale(shape_.workload), loss);
}

void OutputHead::Backward(const Execution& run, const HeadActivations& head, const Tensor& grad,
                          bool accumulate) const {
  if (!KeepsGatheredHead(shape_.plan)) run.units->Read(run, output_.unit);
  run.units->Write(run, output_.unit);
  VocabParallelCrossEntropyBackward(run, shape_, head, LossScale(shape_.workload));
  const Tensor& whole = workspace_.whole;
  const Tensor ln = GatherRows(run, head.ln, whole);
  run.ops.Matmul(head.logits, Transpose::kYes, ln, Transpose::kNo, output_.grad, run.Adds(accumulate),
                 run.stream);
  const Tensor grad_ln = ReducedRows(run, whole);
  ReducedProduct(run, {{head.logits, output_.value}}, Transpose::kNo, whole, grad_ln);
  Scale(run, grad_ln);
  norm_.Backward(run, grad_ln, head.x_final, head.norm, grad, /*add_to_dx=*/false, accumulate);
  if (!EmbeddingAddsToHead(shape_.model, shape_.plan)) run.units->Reduce(run, output_.unit, accumulate);
}

}  // namespace autocfg::trainer
