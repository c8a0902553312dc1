#include "trainer/checkpoint/stored_names.h"

#include <fmt/format.h>

#include <stdexcept>

namespace autocfg::trainer {
namespace {

using Kind = ParameterKind;

constexpr std::string_view kOutputLayer = "lm_head.weight";

// Returns the names of the norms of a layer, without what they store. With norms on outputs, Llama's
// post_attention_layernorm is the one on the output of attention.
struct NormNames {
  std::string_view norm1, norm2;
  std::string_view post1 = {}, post2 = {};
};
NormNames NormNamesOf(NameStyle style) {
  switch (style) {
    case NameStyle::kOlmo2: return {"post_attention_layernorm", "post_feedforward_layernorm"};
    case NameStyle::kGemma2:
      return {"input_layernorm", "pre_feedforward_layernorm", "post_attention_layernorm",
              "post_feedforward_layernorm"};
    case NameStyle::kGpt2:
    case NameStyle::kLlama: break;
  }
  return {"input_layernorm", "post_attention_layernorm"};
}

// Returns Llama's names of the parts of a parameter.
std::vector<std::string> LlamaNames(const Parameter& p, NameStyle style) {
  const auto layer = [&](std::string_view rest) { return fmt::format("model.layers.{}.{}", p.layer, rest); };
  const auto projections = [&](std::string_view of, std::string_view what) {
    std::vector<std::string> names;
    for (const char one : of) names.push_back(layer(fmt::format("self_attn.{}_proj.{}", one, what)));
    return names;
  };
  const auto fc = [&](std::string_view what) {
    std::vector<std::string> names;
    if (p.parts.size() == 2) names.push_back(layer(fmt::format("mlp.gate_proj.{}", what)));
    names.push_back(layer(fmt::format("mlp.up_proj.{}", what)));
    return names;
  };
  const NormNames norms = NormNamesOf(style);
  const auto norm = [&](std::string_view name, std::string_view what) {
    return std::vector{layer(fmt::format("{}.{}", name, what))};
  };
  switch (p.kind) {
    case Kind::kTokenEmbedding: return {"model.embed_tokens.weight"};
    case Kind::kPositionEmbedding: return {"model.embed_positions.weight"};
    case Kind::kEmbeddingNormWeight: return {"model.embed_layernorm.weight"};
    case Kind::kEmbeddingNormBias: return {"model.embed_layernorm.bias"};
    case Kind::kNorm1Weight: return norm(norms.norm1, "weight");
    case Kind::kNorm1Bias: return norm(norms.norm1, "bias");
    case Kind::kKeyValueWeight: return projections("kv", "weight");
    case Kind::kKeyValueBias: return projections("kv", "bias");
    case Kind::kQueryWeight: return projections("q", "weight");
    case Kind::kQueryBias: return projections("q", "bias");
    case Kind::kQkvWeight: return projections("qkv", "weight");
    case Kind::kQkvBias: return projections("qkv", "bias");
    case Kind::kQueryNormWeight: return {layer("self_attn.q_norm.weight")};
    case Kind::kKeyNormWeight: return {layer("self_attn.k_norm.weight")};
    case Kind::kAttentionOutWeight: return {layer("self_attn.o_proj.weight")};
    case Kind::kAttentionOutBias: return {layer("self_attn.o_proj.bias")};
    case Kind::kNorm2Weight: return norm(norms.norm2, "weight");
    case Kind::kNorm2Bias: return norm(norms.norm2, "bias");
    case Kind::kPostNorm1Weight: return norm(norms.post1, "weight");
    case Kind::kPostNorm1Bias: return norm(norms.post1, "bias");
    case Kind::kPostNorm2Weight: return norm(norms.post2, "weight");
    case Kind::kPostNorm2Bias: return norm(norms.post2, "bias");
    case Kind::kFcWeight: return fc("weight");
    case Kind::kFcBias: return fc("bias");
    case Kind::kProjWeight: return {layer("mlp.down_proj.weight")};
    case Kind::kProjBias: return {layer("mlp.down_proj.bias")};
    case Kind::kFinalNormWeight: return {"model.norm.weight"};
    case Kind::kFinalNormBias: return {"model.norm.bias"};
    case Kind::kOutputLayer: return {std::string(kOutputLayer)};
  }
  throw std::logic_error(fmt::format("parameter {} has an unknown kind", p.name));
}

bool IsLinearWeight(Kind kind) {
  switch (kind) {
    case Kind::kKeyValueWeight:
    case Kind::kQueryWeight:
    case Kind::kQkvWeight:
    case Kind::kAttentionOutWeight:
    case Kind::kFcWeight:
    case Kind::kProjWeight: return true;
    default: return false;
  }
}

}  // namespace

NameStyle StyleOf(const ModelSpec& model) {
  const bool gpt2 = model.norm == Norm::kLayerNorm && !IsGated(model.activation) &&
                    model.position == Position::kLearned && model.qkv_bias && model.attention_out_bias &&
                    model.mlp_bias && model.tied_embeddings && model.qk_norm == QkNorm::kNone &&
                    !model.shared_norm && !model.embedding_norm &&
                    model.norm_placement == NormPlacement::kPre && model.kv_heads == model.heads;
  if (gpt2) return NameStyle::kGpt2;
  switch (model.norm_placement) {
    case NormPlacement::kPre: return NameStyle::kLlama;
    case NormPlacement::kOutput: return NameStyle::kOlmo2;
    case NormPlacement::kSandwich: return NameStyle::kGemma2;
  }
  throw std::logic_error("names of a model with an unknown placement of norms");
}

std::vector<StoredPart> StoredParts(const Parameter& p, NameStyle style) {
  if (style == NameStyle::kGpt2) return {{p.name, p.global_shape, 0, p.global_shape.back(), false}};
  const std::vector<std::string> names = LlamaNames(p, style);
  std::vector<StoredPart> stored;
  std::int64_t first = p.first_column;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int64_t columns = p.parts.empty() ? p.global_shape.back() : p.parts.at(i);
    StoredPart part{names[i], p.global_shape, first, columns, IsLinearWeight(p.kind)};
    part.shape.back() = columns;
    if (style == NameStyle::kGemma2 && p.initial == Initial::kOnes) part.offset = 1;
    if (part.transposed) std::swap(part.shape.front(), part.shape.back());
    stored.push_back(std::move(part));
    first += columns;
  }
  return stored;
}

std::string_view Prefix(NameStyle style) { return style == NameStyle::kGpt2 ? "transformer." : "model."; }

std::string FullName(NameStyle style, std::string_view name) {
  if (name.starts_with(Prefix(style)) || name == kOutputLayer) return std::string(name);
  return fmt::format("{}{}", Prefix(style), name);
}

bool IsPassedOver(const ModelSpec& model, std::string_view full_name) {
  if (full_name == kOutputLayer) return model.tied_embeddings;
  if (StyleOf(model) != NameStyle::kGpt2) return full_name.ends_with("rotary_emb.inv_freq");
  return full_name.ends_with(".attn.bias") || full_name.ends_with(".attn.masked_bias");
}

}  // namespace autocfg::trainer
