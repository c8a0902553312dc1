#include "trainer/model/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace autocfg {
namespace {

class ListBuilder {
 public:
  explicit ListBuilder(const RankShape& shape) : shape_(shape) {}

  void Add(std::string name, std::vector<std::int64_t> global_shape, std::vector<std::int64_t> local_shape,
           Sharding sharding, Initial initial, double std = 0) {
    Parameter p;
    p.name = "transformer." + std::move(name);
    p.global_shape = std::move(global_shape);
    p.shape = std::move(local_shape);
    p.sharding = sharding;
    if (sharding != Sharding::kReplicated) {
      p.shard = shape_.tensor;
      p.shards = shape_.plan.tp;
    }
    p.initial = initial;
    p.std = std;
    p.counted = sharding != Sharding::kReplicated || shape_.tensor == 0;
    list_.push_back(std::move(p));
  }

  void AddNorm(const std::string& name) {
    const std::int64_t h = shape_.hidden;
    Add(name + ".weight", {h}, {h}, Sharding::kReplicated, Initial::kOnes);
    Add(name + ".bias", {h}, {h}, Sharding::kReplicated, Initial::kZeros);
  }

  void AddEmbedding() {
    Add("wte.weight", {shape_.model.vocab, shape_.hidden}, {shape_.vocab, shape_.hidden}, Sharding::kRows,
        Initial::kNormal, shape_.model.init_std);
    list_.back().counted = shape_.first;  // the last stage's copy is the same tensor
  }

  void AddLayer(std::int64_t layer) {
    const RankShape& s = shape_;
    const std::string h = fmt::format("h.{}.", layer);
    const std::int64_t all_attention = s.model.heads * s.model.head_dim;
    const std::int64_t all_ffn = s.model.ffn_hidden;
    const double std = s.model.init_std;
    const double residual_std = std / std::sqrt(2.0 * static_cast<double>(s.model.layers));
    AddNorm(h + "ln_1");
    Add(h + "attn.c_attn.weight", {s.hidden, 3 * all_attention}, {s.hidden, 3 * s.attention},
        Sharding::kHeads, Initial::kNormal, std);
    Add(h + "attn.c_attn.bias", {3 * all_attention}, {3 * s.attention}, Sharding::kHeads, Initial::kZeros);
    Add(h + "attn.c_proj.weight", {all_attention, s.hidden}, {s.attention, s.hidden}, Sharding::kRows,
        Initial::kNormal, residual_std);
    Add(h + "attn.c_proj.bias", {s.hidden}, {s.hidden}, Sharding::kReplicated, Initial::kZeros);
    AddNorm(h + "ln_2");
    Add(h + "mlp.c_fc.weight", {s.hidden, all_ffn}, {s.hidden, s.ffn}, Sharding::kColumns, Initial::kNormal,
        std);
    Add(h + "mlp.c_fc.bias", {all_ffn}, {s.ffn}, Sharding::kColumns, Initial::kZeros);
    Add(h + "mlp.c_proj.weight", {all_ffn, s.hidden}, {s.ffn, s.hidden}, Sharding::kRows, Initial::kNormal,
        residual_std);
    Add(h + "mlp.c_proj.bias", {s.hidden}, {s.hidden}, Sharding::kReplicated, Initial::kZeros);
  }

  std::vector<Parameter> Take() { return std::move(list_); }

 private:
  const RankShape& shape_;
  std::vector<Parameter> list_;
};

}  // namespace

std::vector<Parameter> RankParameters(const RankShape& shape) {
  ListBuilder list(shape);
  if (shape.first || shape.last) list.AddEmbedding();
  if (shape.first) {
    const std::vector<std::int64_t> positions = {shape.model.max_seq_len, shape.hidden};
    list.Add("wpe.weight", positions, positions, Sharding::kReplicated, Initial::kNormal,
             shape.model.init_std);
  }
  for (std::int64_t l = 0; l < shape.layers.count; ++l) list.AddLayer(shape.layers.first + l);
  if (shape.last) list.AddNorm("ln_f");
  return list.Take();
}

int FirstLayerParameter(const RankShape& shape) {
  return (shape.first || shape.last ? 1 : 0) + (shape.first ? 1 : 0);
}

void ForEachRun(const Parameter& p,
                const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& run) {
  const std::int64_t columns = p.shape.back();
  const std::int64_t rows = ElementCount(p.shape) / columns;
  const std::int64_t all_columns = p.global_shape.back();
  switch (p.sharding) {
    case Sharding::kReplicated:
      run(0, 0, rows * columns);
      return;
    case Sharding::kRows: {
      const std::int64_t start = p.shard * rows;
      const std::int64_t valid = std::clamp<std::int64_t>(p.global_shape.front() - start, 0, rows);
      if (valid > 0) run(0, start * columns, valid * columns);
      return;
    }
    case Sharding::kColumns:
    case Sharding::kHeads: {
      const std::int64_t parts = p.sharding == Sharding::kHeads ? 3 : 1;
      const std::int64_t width = columns / parts;
      const std::int64_t all_width = all_columns / parts;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t part = 0; part < parts; ++part) {
          run(row * columns + part * width, row * all_columns + part * all_width + p.shard * width, width);
        }
      }
      return;
    }
  }
}

std::int64_t ElementCount(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  return n;
}

}  // namespace autocfg
