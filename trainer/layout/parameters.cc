#include "trainer/layout/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace autocfg::trainer {
namespace {

using Kind = ParameterKind;

class ListBuilder {
 public:
  explicit ListBuilder(const RankShape& shape)
      : s_(shape),
        std_(shape.model.init_std),
        residual_std_(std_ / std::sqrt(2.0 * static_cast<double>(shape.model.layers))) {}

  // `tied_copy`: true for the last rank's copy of the first rank's tensor.
  void AddVocabulary(Kind kind, std::string name, bool tied_copy) {
    AddNormal(kind, std::move(name), std_);
    if (tied_copy) list_.back().counted = false;
  }

  void AddPositions() { AddNormal(Kind::kPositionEmbedding, "transformer.wpe.weight", std_); }

  void AddNorm(Kind weight, Kind bias, const std::string& name) {
    Add(weight, name + ".weight", Initial::kOnes);
    if (HasBias(s_.model.norm)) Add(bias, name + ".bias", Initial::kZeros);
  }

  void AddLayer(std::int64_t layer) {
    layer_ = layer;
    const std::string h = fmt::format("transformer.h.{}.", layer);
    AddNorm(Kind::kNorm1Weight, Kind::kNorm1Bias, h + "ln_1");
    const std::string qkv = h + "attn.c_attn";
    if (s_.kv_replicas > 1) {
      AddLinear(Kind::kKeyValueWeight, Kind::kKeyValueBias, qkv, std_, s_.model.qkv_bias);
      AddLinear(Kind::kQueryWeight, Kind::kQueryBias, qkv, std_, s_.model.qkv_bias);
    } else {
      AddLinear(Kind::kQkvWeight, Kind::kQkvBias, qkv, std_, s_.model.qkv_bias);
    }
    if (s_.model.qk_norm != QkNorm::kNone) {
      Add(Kind::kQueryNormWeight, h + "attn.q_norm.weight", Initial::kOnes);
      Add(Kind::kKeyNormWeight, h + "attn.k_norm.weight", Initial::kOnes);
    }
    AddLinear(Kind::kAttentionOutWeight, Kind::kAttentionOutBias, h + "attn.c_proj", residual_std_,
              s_.model.attention_out_bias);
    if (!s_.model.shared_norm) AddNorm(Kind::kNorm2Weight, Kind::kNorm2Bias, h + "ln_2");
    if (s_.model.norm_placement == NormPlacement::kSandwich) {
      AddNorm(Kind::kPostNorm1Weight, Kind::kPostNorm1Bias, h + "ln_1_post");
      AddNorm(Kind::kPostNorm2Weight, Kind::kPostNorm2Bias, h + "ln_2_post");
    }
    AddLinear(Kind::kFcWeight, Kind::kFcBias, h + "mlp.c_fc", std_, s_.model.mlp_bias);
    AddLinear(Kind::kProjWeight, Kind::kProjBias, h + "mlp.c_proj", residual_std_, s_.model.mlp_bias);
    layer_ = kNoLayer;
  }

  std::vector<Parameter> Take() { return std::move(list_); }

 private:
  void AddLinear(Kind weight, Kind bias, const std::string& name, double std, bool has_bias) {
    AddNormal(weight, name + ".weight", std);
    if (has_bias) Add(bias, name + ".bias", Initial::kZeros);
  }

  void AddNormal(Kind kind, std::string name, double std) {
    Add(kind, std::move(name), Initial::kNormal);
    list_.back().std = std;
  }

  void Add(Kind kind, std::string name, Initial initial) {
    const ParameterShape shape = ShapeOf(kind, s_.model, s_);
    Parameter p;
    p.name = std::move(name);
    p.kind = kind;
    p.layer = layer_;
    p.global_shape.assign(shape.global.begin(), shape.global.end());
    p.shape.assign(shape.local.begin(), shape.local.end());
    p.parts.assign(shape.parts.begin(), shape.parts.end());
    p.first_column = shape.first_column;
    p.sharding = shape.sharding;
    if (shape.sharding != Sharding::kReplicated) {
      p.shard = s_.tensor / shape.replicas;
      p.shards = s_.plan.tp / shape.replicas;
    }
    p.initial = initial;
    p.counted = shape.sharding != Sharding::kReplicated ? s_.tensor % shape.replicas == 0 : s_.tensor == 0;
    list_.push_back(std::move(p));
  }

  const RankShape& s_;
  const double std_, residual_std_;
  std::int64_t layer_ = kNoLayer;
  std::vector<Parameter> list_;
};

}  // namespace

std::vector<Parameter> RankParameters(const RankShape& shape) {
  const bool tied = shape.model.tied_embeddings;
  ListBuilder list(shape);
  if (shape.place.first || (shape.place.last && tied)) {
    list.AddVocabulary(Kind::kTokenEmbedding, "transformer.wte.weight", !shape.place.first);
  }
  if (shape.place.first && shape.model.position == Position::kLearned) list.AddPositions();
  if (shape.place.first && shape.model.embedding_norm)
    list.AddNorm(Kind::kEmbeddingNormWeight, Kind::kEmbeddingNormBias, "transformer.ln_e");
  for (const StageShape& chunk : shape.chunks) {
    for (std::int64_t l = 0; l < chunk.layers.count; ++l) list.AddLayer(chunk.layers.first + l);
  }
  if (shape.place.last) {
    list.AddNorm(Kind::kFinalNormWeight, Kind::kFinalNormBias, "transformer.ln_f");
    if (!tied) list.AddVocabulary(Kind::kOutputLayer, "lm_head.weight", false);
  }
  return list.Take();
}

void ForEachRun(const Parameter& p,
                const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& run) {
  const std::int64_t columns = p.shape.back();
  const std::int64_t rows = ElementCount(p.shape) / columns;
  const std::int64_t all_columns = p.global_shape.back();
  switch (p.sharding) {
    case Sharding::kReplicated: run(0, 0, rows * columns); return;
    case Sharding::kRows: {
      const std::int64_t start = p.shard * rows;
      const std::int64_t valid = std::clamp<std::int64_t>(p.global_shape.front() - start, 0, rows);
      if (valid > 0) run(0, start * columns, valid * columns);
      return;
    }
    case Sharding::kColumns:
      for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t local = row * columns;
        std::int64_t global = row * all_columns + p.first_column;
        for (const std::int64_t part : p.parts) {
          const std::int64_t width = part / p.shards;
          run(local, global + p.shard * width, width);
          local += width;
          global += part;
        }
      }
      return;
  }
}

std::int64_t ElementCount(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  return n;
}

}  // namespace autocfg::trainer
