#include "trainer/checkpoint/stored_names.h"

#include <fmt/format.h>

#include <stdexcept>

namespace autocfg::trainer {
namespace {

using Kind = ParameterKind;

constexpr std::string_view kOutputLayer = "lm_head.weight";

// Returns Llama's names of the parts of a parameter.
std::vector<std::string> LlamaNames(const Parameter& p) {
  const auto layer = [&](std::string_view rest) { return fmt::format("model.layers.{}.{}", p.layer, rest); };
  const auto qkv = [&](std::string_view what) {
    return std::vector{layer(fmt::format("self_attn.q_proj.{}", what)),
                       layer(fmt::format("self_attn.k_proj.{}", what)),
                       layer(fmt::format("self_attn.v_proj.{}", what))};
  };
  const auto fc = [&](std::string_view what) {
    std::vector<std::string> names;
    if (p.parts.size() == 2) names.push_back(layer(fmt::format("mlp.gate_proj.{}", what)));
    names.push_back(layer(fmt::format("mlp.up_proj.{}", what)));
    return names;
  };
  switch (p.kind) {
    case Kind::kTokenEmbedding: return {"model.embed_tokens.weight"};
    case Kind::kPositionEmbedding: return {"model.embed_positions.weight"};
    case Kind::kEmbeddingNormWeight: return {"model.embed_layernorm.weight"};
    case Kind::kEmbeddingNormBias: return {"model.embed_layernorm.bias"};
    case Kind::kNorm1Weight: return {layer("input_layernorm.weight")};
    case Kind::kNorm1Bias: return {layer("input_layernorm.bias")};
    case Kind::kQkvWeight: return qkv("weight");
    case Kind::kQkvBias: return qkv("bias");
    case Kind::kQueryNormWeight: return {layer("self_attn.q_norm.weight")};
    case Kind::kKeyNormWeight: return {layer("self_attn.k_norm.weight")};
    case Kind::kAttentionOutWeight: return {layer("self_attn.o_proj.weight")};
    case Kind::kAttentionOutBias: return {layer("self_attn.o_proj.bias")};
    case Kind::kNorm2Weight: return {layer("post_attention_layernorm.weight")};
    case Kind::kNorm2Bias: return {layer("post_attention_layernorm.bias")};
    case Kind::kPostNorm1Weight: return {layer("post_attention_norm.weight")};
    case Kind::kPostNorm1Bias: return {layer("post_attention_norm.bias")};
    case Kind::kPostNorm2Weight: return {layer("post_feedforward_norm.weight")};
    case Kind::kPostNorm2Bias: return {layer("post_feedforward_norm.bias")};
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
  return kind == Kind::kQkvWeight || kind == Kind::kAttentionOutWeight || kind == Kind::kFcWeight ||
         kind == Kind::kProjWeight;
}

}  // namespace

NameStyle StyleOf(const ModelSpec& model) {
  const bool gpt2 = model.norm == Norm::kLayerNorm && !IsGated(model.activation) &&
                    model.position == Position::kLearned && model.qkv_bias && model.attention_out_bias &&
                    model.mlp_bias && model.tied_embeddings && model.qk_norm == QkNorm::kNone &&
                    !model.shared_norm && !model.embedding_norm && model.kv_heads == model.heads;
  return gpt2 ? NameStyle::kGpt2 : NameStyle::kLlama;
}

std::vector<StoredPart> StoredParts(const Parameter& p, NameStyle style) {
  if (style == NameStyle::kGpt2) return {{p.name, p.global_shape, 0, p.global_shape.back(), false}};
  const std::vector<std::string> names = LlamaNames(p);
  std::vector<StoredPart> stored;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int64_t columns = names.size() == 1 ? p.global_shape.back() : p.parts.at(i);
    StoredPart part{names[i], p.global_shape, first, columns, IsLinearWeight(p.kind)};
    part.shape.back() = columns;
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
  if (StyleOf(model) == NameStyle::kLlama) return full_name.ends_with("rotary_emb.inv_freq");
  return full_name.ends_with(".attn.bias") || full_name.ends_with(".attn.masked_bias");
}

}  // namespace autocfg::trainer
