#include "trainer/layout/parameter_units.h"

#include <algorithm>

#include "search/ops/memory_sizes.h"

namespace autocfg::trainer {
namespace {

// Whether the parameter begins a unit. `previous`: the one before it that is not of a norm.
bool BeginsUnit(const Parameter& p, const Parameter* previous) {
  return previous == nullptr || p.layer == kNoLayer || p.layer != previous->layer;
}

UnitKind KindOf(const Parameter& p) {
  if (p.kind == ParameterKind::kTokenEmbedding || p.kind == ParameterKind::kPositionEmbedding)
    return UnitKind::kEmbedding;
  return p.kind == ParameterKind::kOutputLayer ? UnitKind::kOutputLayer : UnitKind::kLayer;
}

}  // namespace

ParameterUnits GroupParameters(const std::vector<Parameter>& parameters, std::int64_t shards) {
  ParameterUnits all;
  all.places.resize(parameters.size());
  all.units.push_back({.kind = UnitKind::kNorms});
  const auto add = [&](std::size_t i, std::size_t unit) {
    ParameterUnit& into = all.units[unit];
    into.parameters.push_back(i);
    all.places[i] = {unit, into.elements};
    into.elements += AlignedElements(ElementCount(parameters[i].shape));
  };
  // First of the norms come those whose gradients may be summed alone.
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (IsOfOwnHeads(parameters[i].kind)) add(i, kNormUnit);
  }
  all.own_head_norms = all.units[kNormUnit].elements;
  const Parameter* previous = nullptr;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (IsOfOwnHeads(p.kind)) continue;
    if (IsOfNorm(p.kind)) {
      add(i, kNormUnit);
      continue;
    }
    if (BeginsUnit(p, previous)) all.units.push_back({.kind = KindOf(p)});
    add(i, all.units.size() - 1);
    if (IsOfSharedHeads(p.kind)) all.shared_heads = all.units.back().elements;
    previous = &p;
  }
  for (ParameterUnit& unit : all.units) unit.elements = UnitElements(unit.elements, shards);
  return all;
}

ElementRange OwnRangeOf(const ParameterUnit& unit, std::int64_t offset, std::int64_t elements,
                        std::int64_t shard, std::int64_t shards) {
  const std::int64_t part = unit.elements / shards;
  const std::int64_t first = std::clamp<std::int64_t>(part * shard - offset, 0, elements);
  const std::int64_t end = std::clamp<std::int64_t>(part * (shard + 1) - offset, 0, elements);
  return {first, end - first};
}

}  // namespace autocfg::trainer
