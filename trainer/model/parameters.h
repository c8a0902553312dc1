// The parameters of a rank: names, shapes, and which elements of the whole model's tensor each local element
// is. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/model/rank_shape.h"

namespace autocfg {

// How a parameter is split over the tensor group.
enum class Sharding : std::uint8_t {
  kReplicated,
  kRows,     // of a matrix (or, for the embedding, of the padded vocabulary)
  kColumns,  // the last dim
  kHeads,    // the last dim of c_attn: q, k and v of all heads each; a rank has its heads' part of each
};

enum class Initial : std::uint8_t { kNormal, kZeros, kOnes };

struct Parameter {
  std::string name;                        // as Hugging Face names it: "transformer.h.0.attn.c_attn.weight"
  std::vector<std::int64_t> global_shape;  // of the model, without vocabulary padding
  std::vector<std::int64_t> shape;         // of this rank
  Sharding sharding = Sharding::kReplicated;
  std::int64_t shard = 0;   // which part this rank has
  std::int64_t shards = 1;  // of how many
  Initial initial = Initial::kNormal;
  double std = 0;       // kNormal only
  bool counted = true;  // whether this rank counts it in the gradient norm, on data coordinate 0

  // Decoupled weight decay is for parameters of two or more dims.
  bool decays() const { return shape.size() >= 2; }
};

// Parameters per layer, in this order: ln_1 (weight, bias), attn.c_attn, attn.c_proj, ln_2, mlp.c_fc,
// mlp.c_proj.
inline constexpr int kParametersPerLayer = 12;

// In the order of docs/engine.md.
std::vector<Parameter> RankParameters(const RankShape& shape);

// Index of the first parameter of the rank's first layer in RankParameters.
int FirstLayerParameter(const RankShape& shape);

// Calls `run(local_offset, global_offset, count)` for each stretch of elements that is contiguous both in the
// local and in the whole model's tensor, in ascending local order. Together they cover all local elements but
// the padding.
void ForEachRun(const Parameter& parameter,
                const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& run);

std::int64_t ElementCount(const std::vector<std::int64_t>& shape);

}  // namespace autocfg
