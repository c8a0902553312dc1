// The parameters of a rank: names, shapes, and which elements of the whole model's tensor each local element
// is. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/model/rank_shape.h"

namespace autocfg {

// What a parameter is to the model. Which of them a model has is in docs/engine.md.
enum class ParameterKind : std::uint8_t {
  kTokenEmbedding,     // wte
  kPositionEmbedding,  // wpe
  kNorm1Weight,        // of each layer, from here
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
  kProjBias,    // to here
  kFinalNormWeight,
  kFinalNormBias,
  kOutputLayer,  // lm_head, where it is not tied to wte
};

// How a parameter is split over the tensor group.
enum class Sharding : std::uint8_t {
  kReplicated,
  kRows,     // of a matrix (or, for embedding and output layer, of the padded vocabulary)
  kColumns,  // the last dim, each of its `parts` for itself
};

enum class Initial : std::uint8_t { kNormal, kZeros, kOnes };

inline constexpr std::int64_t kNoLayer = -1;

struct Parameter {
  std::string name;  // in GPT-2's words, whatever the model has: "transformer.h.0.attn.c_attn.weight"
  ParameterKind kind = ParameterKind::kTokenEmbedding;
  std::int64_t layer = kNoLayer;           // of the model
  std::vector<std::int64_t> global_shape;  // of the model, without vocabulary padding
  std::vector<std::int64_t> shape;         // of this rank
  // kColumns: the widths, in the whole model, of the blocks that the last dim is made of; their sum is
  // global_shape.back(). c_attn: all q, all k, all v; a gated c_fc: all gates, all ups; else one.
  std::vector<std::int64_t> parts;
  Sharding sharding = Sharding::kReplicated;
  std::int64_t shard = 0;   // which part this rank has
  std::int64_t shards = 1;  // of how many
  Initial initial = Initial::kNormal;
  double std = 0;       // kNormal only
  bool counted = true;  // whether this rank counts it in the gradient norm, on data coordinate 0

  // Decoupled weight decay is for parameters of two or more dims.
  bool decays() const { return shape.size() >= 2; }
};

// In the order of docs/engine.md.
std::vector<Parameter> RankParameters(const RankShape& shape);

// Calls `run(local_offset, global_offset, count)` for each stretch of elements that is contiguous both in the
// local and in the whole model's tensor, in ascending local order. Together they cover all local elements but
// the padding.
void ForEachRun(const Parameter& parameter,
                const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& run);

std::int64_t ElementCount(const std::vector<std::int64_t>& shape);

}  // namespace autocfg
