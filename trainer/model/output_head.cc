#include "trainer/model/output_head.h"

#include "trainer/parallel/vocab_parallel_cross_entropy.h"

namespace autocfg {
namespace {

Weight At(const MemoryLayout& layout, std::size_t index) {
  const ParameterTensors& p = layout.parameter_tensors().at(index);
  return {p.value, p.grad};
}

}  // namespace

OutputHead::OutputHead(const RankShape& shape, const MemoryLayout& layout)
    : shape_(shape),
      workspace_(layout.workspace()),
      wte_(At(layout, 0)),
      ln_f_weight_(At(layout, layout.parameters().size() - 2)),
      ln_f_bias_(At(layout, layout.parameters().size() - 1)) {}

void OutputHead::Forward(const Execution& run, const HeadActivations& head, const Tensor& loss) const {
  run.ops.LayerNormForward(head.x_final, ln_f_weight_.value, ln_f_bias_.value, shape_.model.norm_eps, head.ln,
                           head.mean, head.rstd, run.stream);
  run.ops.Matmul(head.ln, Transpose::kNo, wte_.value, Transpose::kYes, head.logits, false, run.stream);
  VocabParallelCrossEntropyForward(run, shape_, head, loss);
}

void OutputHead::Backward(const Execution& run, const HeadActivations& head, const Tensor& grad) const {
  const Workload& workload = shape_.workload;
  const double scale =
      1.0 / (static_cast<double>(workload.global_batch) * static_cast<double>(workload.seq_len));
  VocabParallelCrossEntropyBackward(run, shape_, head, scale);
  const Tensor& grad_ln = workspace_.grad_b;
  run.ops.Matmul(head.logits, Transpose::kNo, wte_.value, Transpose::kNo, grad_ln, false, run.stream);
  run.ops.Matmul(head.logits, Transpose::kYes, head.ln, Transpose::kNo, wte_.grad, true, run.stream);
  run.AllReduce(run.groups.tensor, grad_ln, ReduceOp::kSum);
  run.ops.LayerNormBackward(grad_ln, head.x_final, ln_f_weight_.value, head.mean, head.rstd, grad, false,
                            ln_f_weight_.grad, ln_f_bias_.grad, run.stream);
}

}  // namespace autocfg
