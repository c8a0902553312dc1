// The parameters of a rank: names, shapes, and the mapping from local elements to elements of the whole
// model's tensor. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/layout/rank_shape.h"

namespace autocfg::trainer {

// The role of a parameter. docs/engine.md says which of them a model has.
enum class ParameterKind : std::uint8_t {
  kTokenEmbedding,     // wte
  kPositionEmbedding,  // wpe
  kNorm1Weight,        // first parameter of each layer
  kNorm1Bias,
  kQkvWeight,  // attn.c_attn: all q, then all k, then all v
  kQkvBias,
  kAttentionOutWeight,  // attn.c_proj
  kAttentionOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kFcWeight,  // mlp.c_fc; gated: all gates, then all ups
  kFcBias,
  kProjWeight,  // mlp.c_proj
  kProjBias,    // last parameter of each layer
  kFinalNormWeight,
  kFinalNormBias,
  kOutputLayer,  // lm_head, if it is not tied to wte
};

// How a parameter is split over the tensor group.
enum class Sharding : std::uint8_t {
  kReplicated,
  kRows,     // rows of a matrix (for embedding and output layer: of the padded vocabulary)
  kColumns,  // the last dim, each of its `parts` separately
};

enum class Initial : std::uint8_t { kNormal, kZeros, kOnes };

inline constexpr std::int64_t kNoLayer = -1;

struct Parameter {
  std::string name;  // GPT-2's name, whatever the model: "transformer.h.0.attn.c_attn.weight"
  ParameterKind kind = ParameterKind::kTokenEmbedding;
  std::int64_t layer = kNoLayer;           // of the model
  std::vector<std::int64_t> global_shape;  // of the model, without vocabulary padding
  std::vector<std::int64_t> shape;         // of this rank
  // kColumns: the widths, in the whole model, of the blocks of the last dim. Their sum is
  // global_shape.back(). c_attn: q, k and v; a gated c_fc: gates and ups; otherwise one block.
  std::vector<std::int64_t> parts;
  Sharding sharding = Sharding::kReplicated;
  std::int64_t shard = 0;   // index of this rank's part
  std::int64_t shards = 1;  // number of parts
  Initial initial = Initial::kNormal;
  double std = 0;       // kNormal only
  bool counted = true;  // true if this rank counts it in the gradient norm, on data coordinate 0

  // Returns true if decoupled weight decay applies: to parameters of two or more dims.
  bool decays() const { return shape.size() >= 2; }
};

// Returns the rank's parameters in the order of docs/engine.md.
std::vector<Parameter> RankParameters(const RankShape& shape);

// Calls `run(local_offset, global_offset, count)` for each range of elements that is contiguous in both the
// local and the whole model's tensor, in ascending local order. The ranges cover all local elements except
// padding.
void ForEachRun(const Parameter& parameter,
                const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& run);

std::int64_t ElementCount(const std::vector<std::int64_t>& shape);

}  // namespace autocfg::trainer
