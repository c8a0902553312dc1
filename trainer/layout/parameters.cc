#include "trainer/layout/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace autocfg::trainer {
namespace {

using Dims = std::vector<std::int64_t>;
using Kind = ParameterKind;

class ListBuilder {
 public:
  explicit ListBuilder(const RankShape& shape)
      : s_(shape),
        std_(shape.model.init_std),
        residual_std_(std_ / std::sqrt(2.0 * static_cast<double>(shape.model.layers))) {}

  // `tied_copy`: true for the last rank's copy of the first rank's tensor.
  void AddVocabulary(Kind kind, std::string name, bool tied_copy) {
    AddRows(kind, std::move(name), s_.model.vocab, s_.vocab, std_);
    if (tied_copy) list_.back().counted = false;
  }

  void AddPositions() {
    AddReplicated(Kind::kPositionEmbedding, "transformer.wpe.weight", {s_.model.max_seq_len, s_.hidden},
                  Initial::kNormal);
    list_.back().std = std_;
  }

  void AddNorm(Kind weight, Kind bias, const std::string& name) {
    AddReplicated(weight, name + ".weight", {s_.hidden}, Initial::kOnes);
    if (s_.model.norm == Norm::kLayerNorm) AddReplicated(bias, name + ".bias", {s_.hidden}, Initial::kZeros);
  }

  void AddLayer(std::int64_t layer) {
    layer_ = layer;
    const ModelSpec& m = s_.model;
    const std::string h = fmt::format("transformer.h.{}.", layer);
    const std::int64_t q = m.heads * m.head_dim;
    const std::int64_t kv = m.kv_heads * m.head_dim;
    const Dims fc = IsGated(m.activation) ? Dims{m.ffn_hidden, m.ffn_hidden} : Dims{m.ffn_hidden};
    AddNorm(Kind::kNorm1Weight, Kind::kNorm1Bias, h + "ln_1");
    AddColumns(Kind::kQkvWeight, Kind::kQkvBias, h + "attn.c_attn", {q, kv, kv});
    AddRows(Kind::kAttentionOutWeight, h + "attn.c_proj.weight", q, s_.attention, residual_std_);
    AddOutputBias(Kind::kAttentionOutBias, h + "attn.c_proj.bias");
    AddNorm(Kind::kNorm2Weight, Kind::kNorm2Bias, h + "ln_2");
    AddColumns(Kind::kFcWeight, Kind::kFcBias, h + "mlp.c_fc", fc);
    AddRows(Kind::kProjWeight, h + "mlp.c_proj.weight", m.ffn_hidden, s_.ffn, residual_std_);
    AddOutputBias(Kind::kProjBias, h + "mlp.c_proj.bias");
    layer_ = kNoLayer;
  }

  std::vector<Parameter> Take() { return std::move(list_); }

 private:
  Parameter& Add(Kind kind, std::string name, Dims global_shape, Dims local_shape, Sharding sharding,
                 Initial initial, double std) {
    Parameter p;
    p.name = std::move(name);
    p.kind = kind;
    p.layer = layer_;
    p.global_shape = std::move(global_shape);
    p.shape = std::move(local_shape);
    p.sharding = sharding;
    if (sharding != Sharding::kReplicated) {
      p.shard = s_.tensor;
      p.shards = s_.plan.tp;
    }
    p.initial = initial;
    p.std = std;
    p.counted = sharding != Sharding::kReplicated || s_.tensor == 0;
    return list_.emplace_back(std::move(p));
  }

  void AddReplicated(Kind kind, std::string name, const Dims& dims, Initial initial) {
    Add(kind, std::move(name), dims, dims, Sharding::kReplicated, initial, 0);
  }

  void AddRows(Kind kind, std::string name, std::int64_t rows, std::int64_t local_rows, double std) {
    Add(kind, std::move(name), {rows, s_.hidden}, {local_rows, s_.hidden}, Sharding::kRows, Initial::kNormal,
        std);
  }

  void AddColumns(Kind weight, Kind bias, const std::string& name, const Dims& parts) {
    const std::int64_t all = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
    const std::int64_t local = all / s_.plan.tp;  // each part is a multiple of tp
    Add(weight, name + ".weight", {s_.hidden, all}, {s_.hidden, local}, Sharding::kColumns, Initial::kNormal,
        std_)
        .parts = parts;
    if (!s_.model.bias) return;
    Add(bias, name + ".bias", {all}, {local}, Sharding::kColumns, Initial::kZeros, 0).parts = parts;
  }

  void AddOutputBias(Kind kind, std::string name) {
    if (s_.model.bias) AddReplicated(kind, std::move(name), {s_.hidden}, Initial::kZeros);
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
  if (shape.holds_embedding || (shape.holds_head && tied)) {
    list.AddVocabulary(Kind::kTokenEmbedding, "transformer.wte.weight", !shape.holds_embedding);
  }
  if (shape.holds_embedding && shape.model.position == Position::kLearned) list.AddPositions();
  for (const StageShape& chunk : shape.chunks) {
    for (std::int64_t l = 0; l < chunk.layers.count; ++l) list.AddLayer(chunk.layers.first + l);
  }
  if (shape.holds_head) {
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
        std::int64_t global = row * all_columns;
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
