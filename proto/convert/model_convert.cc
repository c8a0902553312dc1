#include "proto/convert/model_convert.h"

#include <string_view>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

absl::Status Unknown(std::string_view field, std::string_view value) {
  return base::InvalidArgument("model", fmt::format("unknown {} '{}'", field, base::Printable(value)));
}

}  // namespace

v1::ModelSpec ToProto(const ModelSpec& model) {
  v1::ModelSpec message;
  message.set_name(model.name);
  message.set_layers(model.layers);
  message.set_hidden(model.hidden);
  message.set_heads(model.heads);
  message.set_kv_heads(model.kv_heads);
  message.set_head_dim(model.head_dim);
  message.set_ffn_hidden(model.ffn_hidden);
  message.set_vocab(model.vocab);
  message.set_max_seq_len(model.max_seq_len);
  message.set_activation(std::string(Name(model.activation)));
  message.set_norm(std::string(Name(model.norm)));
  message.set_norm_eps(model.norm_eps);
  message.set_position(std::string(Name(model.position)));
  message.set_rope_theta(model.rope_theta);
  message.set_bias(model.bias);
  message.set_tied_embeddings(model.tied_embeddings);
  message.set_init_std(model.init_std);
  message.set_vocab_multiple(model.vocab_multiple);
  message.set_rope_scaling(model.rope_scaling);
  return message;
}

absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message) {
  ModelSpec model;
  model.name = message.name();
  model.layers = message.layers();
  model.hidden = message.hidden();
  model.heads = message.heads();
  model.kv_heads = message.kv_heads();
  model.head_dim = message.head_dim();
  model.ffn_hidden = message.ffn_hidden();
  model.vocab = message.vocab();
  model.max_seq_len = message.max_seq_len();
  model.rope_scaling = message.rope_scaling();
  if (!message.activation().empty()) {
    const auto activation = ParseActivation(message.activation());
    if (!activation) return Unknown("activation", message.activation());
    model.activation = *activation;
  }
  if (!message.norm().empty()) {
    const auto norm = ParseNorm(message.norm());
    if (!norm) return Unknown("norm", message.norm());
    model.norm = *norm;
  }
  if (!message.position().empty()) {
    const auto position = ParsePosition(message.position());
    if (!position) return Unknown("position", message.position());
    model.position = *position;
  }
  if (message.norm_eps() != 0) model.norm_eps = message.norm_eps();
  if (message.rope_theta() != 0) model.rope_theta = message.rope_theta();
  if (message.init_std() != 0) model.init_std = message.init_std();
  if (message.vocab_multiple() != 0) model.vocab_multiple = message.vocab_multiple();
  if (message.has_bias()) model.bias = message.bias();
  if (message.has_tied_embeddings()) model.tied_embeddings = message.tied_embeddings();

  // Sizes that FillDefaults will fill later may be zero. The completed model must be valid.
  ModelSpec complete = model;
  FillDefaults(complete);
  if (absl::Status status = Validate(complete); !status.ok()) return status;
  return model;
}

}  // namespace autocfg
