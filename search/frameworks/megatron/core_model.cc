#include "search/frameworks/megatron/core_model.h"

#include <fmt/format.h>

#include <cmath>

namespace autocfg {
namespace {

// The tanh form comes with the kernel that adds the biases; without biases it is the erf form. Of other
// functions, each framework says which it has.
bool IsItsGelu(const ModelSpec& model) {
  if (model.activation == Activation::kGelu) return model.mlp_bias;
  return model.activation != Activation::kGeluErf || !model.mlp_bias;
}

}  // namespace

CoreBiases CoreBiasesOf(const ModelSpec& model) {
  if (model.attention_out_bias != model.mlp_bias) return CoreBiases::kOther;
  if (model.mlp_bias) return model.qkv_bias ? CoreBiases::kAll : CoreBiases::kOther;
  return model.qkv_bias ? CoreBiases::kQkvOnly : CoreBiases::kNone;
}

void CheckCoreModel(const ModelSpec& model, Refusals& refuse) {
  refuse.UnlessModel(IsItsGelu(model),
                     fmt::format("activation={} {} biases (it has gelu with them, gelu_erf without)",
                                 Name(model.activation), model.mlp_bias ? "with" : "without"));
  refuse.UnlessModel(model.position != Position::kAlibi, "position=alibi");
  refuse.UnlessModel(model.position != Position::kRope || model.rope_theta == std::floor(model.rope_theta),
                     fmt::format("rope_theta={} (it takes whole numbers)", model.rope_theta));
  refuse.UnlessModel(CoreBiasesOf(model) != CoreBiases::kOther,
                     "biases of some linear layers (it has those of all, of q, k and v, or none)");
  refuse.UnlessModel(
      model.qk_norm == QkNorm::kNone || (model.qk_norm == QkNorm::kHead && model.norm == Norm::kRmsNorm),
      fmt::format("qk_norm={} with norm={} (it norms each head, in the way of the other norms)",
                  Name(model.qk_norm), Name(model.norm)));
  refuse.UnlessModel(model.norm_placement == NormPlacement::kPre,
                     fmt::format("norm_placement={}", Name(model.norm_placement)));
  refuse.UnlessModel(!model.parallel_residual, "parallel_residual");
  refuse.UnlessModel(!model.embedding_norm, "embedding_norm");
  refuse.UnlessModel(model.embedding_scale == 1, "embedding_scale");
  refuse.UnlessModel(model.attention_scale == 0, "attention_scale");
  refuse.UnlessModel(model.residual_scale == 1, "residual_scale");
  refuse.UnlessModel(model.logit_scale == 1, "logit_scale");
  refuse.UnlessModel(model.attention_softcap == 0 && model.output_softcap == 0, "soft caps");
  refuse.UnlessModel(model.sliding_window == 0, "sliding_window");
  refuse.UnlessModel(model.no_rope_layer_interval == 0, "no_rope_layer_interval");
}

}  // namespace autocfg
