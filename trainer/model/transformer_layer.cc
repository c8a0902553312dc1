#include "trainer/model/transformer_layer.h"

#include "trainer/parallel/column_parallel_linear.h"
#include "trainer/parallel/row_parallel_linear.h"

namespace autocfg {

TransformerLayer::TransformerLayer(const RankShape& shape, const MemoryLayout& layout, int local_layer)
    : shape_(shape), workspace_(layout.workspace()) {
  int index = FirstLayerParameter(shape) + local_layer * kParametersPerLayer;
  const auto next = [&] {
    const ParameterTensors& p = layout.parameter_tensors().at(index++);
    return Weight{p.value, p.grad};
  };
  for (Weight* weight : {&w_.ln_1_weight, &w_.ln_1_bias, &w_.c_attn.weight, &w_.c_attn.bias,
                         &w_.attn_proj.weight, &w_.attn_proj.bias, &w_.ln_2_weight, &w_.ln_2_bias,
                         &w_.c_fc.weight, &w_.c_fc.bias, &w_.mlp_proj.weight, &w_.mlp_proj.bias}) {
    *weight = next();
  }
}

void TransformerLayer::Recompute(const Execution& run, const LayerActivations& a) const {
  const RankShape& s = shape_;
  const double eps = s.model.norm_eps;
  run.ops.LayerNormForward(a.x, w_.ln_1_weight.value, w_.ln_1_bias.value, eps, a.ln1, a.mean1, a.rstd1,
                           run.stream);
  ColumnParallelForward(run, w_.c_attn, a.ln1, a.qkv);
  run.ops.BiasAdd(a.qkv, w_.c_attn.bias.value, run.stream);
  run.ops.AttentionForward(a.qkv.Reshape({s.micro_batch, s.seq_len, 3 * s.attention}), s.heads, s.heads,
                           a.attn.Reshape({s.micro_batch, s.seq_len, s.attention}), a.lse,
                           workspace_.attention, run.stream);
  RowParallelForward(run, w_.attn_proj, a.attn, a.x, a.mid);
  run.ops.LayerNormForward(a.mid, w_.ln_2_weight.value, w_.ln_2_bias.value, eps, a.ln2, a.mean2, a.rstd2,
                           run.stream);
  ColumnParallelForward(run, w_.c_fc, a.ln2, a.fc);
  run.ops.ActivationForward(Activation::kGelu, a.fc, w_.c_fc.bias.value, a.gelu, run.stream);
}

void TransformerLayer::Forward(const Execution& run, const LayerActivations& a, const Tensor& out) const {
  Recompute(run, a);
  RowParallelForward(run, w_.mlp_proj, a.gelu, a.mid, out);
}

void TransformerLayer::Backward(const Execution& run, const LayerActivations& a, const Tensor& grad) const {
  const RankShape& s = shape_;
  const Workspace& ws = workspace_;
  RowParallelBackward(run, w_.mlp_proj, a.gelu, grad, ws.grad_ffn);
  run.ops.ActivationBackward(Activation::kGelu, a.fc, ws.grad_ffn, ws.grad_ffn, run.stream);
  ColumnParallelBackward(run, w_.c_fc, a.ln2, ws.grad_ffn, ws.grad_b);
  run.ops.LayerNormBackward(ws.grad_b, a.mid, w_.ln_2_weight.value, a.mean2, a.rstd2, grad, true,
                            w_.ln_2_weight.grad, w_.ln_2_bias.grad, run.stream);
  RowParallelBackward(run, w_.attn_proj, a.attn, grad, ws.grad_attn);
  run.ops.AttentionBackward(a.qkv.Reshape({s.micro_batch, s.seq_len, 3 * s.attention}), s.heads, s.heads,
                            a.attn.Reshape({s.micro_batch, s.seq_len, s.attention}), a.lse,
                            ws.grad_attn.Reshape({s.micro_batch, s.seq_len, s.attention}),
                            ws.grad_qkv.Reshape({s.micro_batch, s.seq_len, 3 * s.attention}), ws.attention,
                            run.stream);
  ColumnParallelBackward(run, w_.c_attn, a.ln1, ws.grad_qkv, ws.grad_b);
  run.ops.LayerNormBackward(ws.grad_b, a.x, w_.ln_1_weight.value, a.mean1, a.rstd1, grad, true,
                            w_.ln_1_weight.grad, w_.ln_1_bias.grad, run.stream);
}

}  // namespace autocfg
