#include "search/cost/memory/rank_units.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "search/cost/memory/rank_parameters.h"
#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

// The parameters of one unit in a row, seen from one of its parts.
class UnitWalk {
 public:
  UnitWalk(std::int64_t elements, std::int64_t shards, std::int64_t shard)
      : begin_(elements / shards * shard), end_(elements / shards * (shard + 1)) {}

  // Goes past a parameter. Returns how many of its elements are in the part.
  std::int64_t Pass(std::int64_t elements) {
    const std::int64_t first = offset_;
    offset_ += AlignedElements(elements);
    return std::max<std::int64_t>(0, std::min(end_, first + elements) - std::max(begin_, first));
  }

 private:
  std::int64_t begin_, end_;
  std::int64_t offset_ = 0;
};

}  // namespace

RankUnits UnitsOf(const LocalDims& dims, const ModelSpec& model, const ParallelPlan& plan, RankPlace place,
                  std::int64_t layers) {
  RankUnits units;
  units.layers = layers;
  std::int64_t layer_norms = 0;
  const auto of_layer = [&](const RankParameter& p) {
    if (IsOfOwnHeads(p.kind)) units.own_head_norms += layers * AlignedElements(p.elements);
    (p.of_norm ? layer_norms : units.layer) += AlignedElements(p.elements);
    if (IsOfSharedHeads(p.kind)) units.shared_heads += AlignedElements(p.elements);
  };
  ParameterVisitor(dims, model, of_layer).Layer();
  units.norms = layers * layer_norms;
  const auto outside = [&](const RankParameter& p) {
    std::int64_t& unit = p.kind == ParameterKind::kTokenEmbedding      ? units.token_embedding
                         : p.kind == ParameterKind::kPositionEmbedding ? units.positions
                         : p.kind == ParameterKind::kOutputLayer       ? units.output_layer
                                                                       : units.norms;
    unit += AlignedElements(p.elements);
  };
  const ParameterVisitor visitor(dims, model, outside);
  visitor.BeforeLayers(place);
  visitor.AfterLayers(place);
  const std::int64_t shards = StateShards(plan);
  for (std::int64_t* unit :
       {&units.norms, &units.token_embedding, &units.positions, &units.layer, &units.output_layer}) {
    *unit = UnitElements(*unit, shards);
  }
  return units;
}

std::int64_t OwnElements(const LocalDims& dims, const ModelSpec& model, const ParallelPlan& plan,
                         RankPlace place, std::int64_t layers, std::int64_t shard,
                         CountedParameters counted) {
  const std::int64_t shards = StateShards(plan);
  const RankUnits units = UnitsOf(dims, model, plan, place, layers);
  std::int64_t own = 0;
  const auto count = [&](UnitWalk& walk, const RankParameter& p) {
    const std::int64_t elements = walk.Pass(p.elements);
    if ((counted.replicated || !p.replicated) && (counted.shared_heads || p.replicas == 1)) own += elements;
  };
  UnitWalk layer(units.layer, shards, shard), norms(units.norms, shards, shard);
  absl::InlinedVector<RankParameter, 6> layer_norms;
  const auto of_layer = [&](const RankParameter& p) {
    if (p.of_norm) {
      layer_norms.push_back(p);
    } else {
      count(layer, p);
    }
  };
  ParameterVisitor(dims, model, of_layer).Layer();
  own *= layers;
  for (const bool of_own_heads : {true, false}) {
    for (std::int64_t i = 0; i < layers; ++i) {
      for (const RankParameter& p : layer_norms) {
        if (IsOfOwnHeads(p.kind) == of_own_heads) count(norms, p);
      }
    }
  }
  const auto outside = [&](const RankParameter& p) {
    if (p.of_norm) return count(norms, p);
    if (p.kind == ParameterKind::kTokenEmbedding && !place.first && !counted.tied_copy) return;
    UnitWalk walk(UnitElements(p.elements, shards), shards, shard);
    count(walk, p);
  };
  const ParameterVisitor visitor(dims, model, outside);
  visitor.BeforeLayers(place);
  visitor.AfterLayers(place);
  return own;
}

}  // namespace autocfg
