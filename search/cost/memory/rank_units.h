// The predictor's list of the units of a pipeline rank. A unit is a group of parameters that lie in a row in
// every region, so that one collective reduces, shards or gathers them (docs/engine.md, "Units"). The trainer
// groups its parameters for itself (trainer/layout/parameter_units.h), and tests compare the two. Pure,
// thread-safe. Requires a legal plan that CheckPredictable accepts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/placement.h"
#include "search/shapes/local_dims.h"

namespace autocfg {

// Elements of each unit, padding included; 0 if the rank has no such unit.
struct RankUnits {
  std::int64_t norms = 0;           // of all layers, and the final one
  std::int64_t own_head_norms = 0;  // of them, the first ones, whose gradients are of a rank's own heads
  std::int64_t token_embedding = 0;
  std::int64_t positions = 0;
  std::int64_t layer = 0;         // of each layer, without its norms
  std::int64_t shared_heads = 0;  // of `layer`, the first ones, of key-value heads that ranks share
  std::int64_t layers = 0;
  std::int64_t output_layer = 0;

  std::int64_t Total() const { return norms + token_embedding + positions + layer * layers + output_layer; }

  // The largest streamed unit (IsStreamed), without the token embedding unless `with_table`.
  std::int64_t LargestStreamed(bool with_table) const {
    return std::max({with_table ? token_embedding : 0, positions, layer, output_layer});
  }

  // Calls visit(kind, elements, times) for equal units in a row, in the order of the regions.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    visit(UnitKind::kNorms, norms, std::int64_t{1});
    if (token_embedding > 0) visit(UnitKind::kEmbedding, token_embedding, std::int64_t{1});
    if (positions > 0) visit(UnitKind::kEmbedding, positions, std::int64_t{1});
    visit(UnitKind::kLayer, layer, layers);
    if (output_layer > 0) visit(UnitKind::kOutputLayer, output_layer, std::int64_t{1});
  }
};

// `layers`: of the rank, over all its stages. `dims`: of the plan.
RankUnits UnitsOf(const LocalDims& dims, const ModelSpec& model, const ParallelPlan& plan, RankPlace place,
                  std::int64_t layers);

// Which parameters OwnElements counts.
struct CountedParameters {
  bool replicated = true;    // those that all ranks of the tensor group hold alike
  bool shared_heads = true;  // those of key-value heads that ranks share
  bool tied_copy = true;     // the last rank's copy of a tied table
};

// Returns the elements, without padding, of the parameters in part `shard` of StateShards(plan) equal parts
// of each unit.
std::int64_t OwnElements(const LocalDims& dims, const ModelSpec& model, const ParallelPlan& plan,
                         RankPlace place, std::int64_t layers, std::int64_t shard, CountedParameters counted);

}  // namespace autocfg
