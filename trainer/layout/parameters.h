// The trainer's list of the parameters of a rank, and the mapping from local elements to elements of the
// whole model's tensor. Shapes are those of search/shapes/parameter_shape.h. The predictor lists the
// parameters for itself (search/cost/memory/rank_parameters.h), and tests compare the two. Pure functions,
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "search/shapes/parameter_shape.h"
#include "trainer/layout/rank_shape.h"

namespace autocfg::trainer {

enum class Initial : std::uint8_t { kNormal, kZeros, kOnes };

inline constexpr std::int64_t kNoLayer = -1;

struct Parameter {
  std::string name;  // GPT-2's name, whatever the model: "transformer.h.0.attn.c_attn.weight"
  ParameterKind kind = ParameterKind::kTokenEmbedding;
  std::int64_t layer = kNoLayer;  // of the model
  // As in ParameterShape.
  std::vector<std::int64_t> global_shape;
  std::vector<std::int64_t> shape;  // of this rank
  std::vector<std::int64_t> parts;
  std::int64_t first_column = 0;
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
