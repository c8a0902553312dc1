// The trainer's units: groups of a rank's parameters that lie in a row in every region, so that one
// collective reduces, shards or gathers them (docs/engine.md, "Units"). The predictor groups parameters for
// itself (search/cost/memory/rank_units.h), and tests compare the two. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/plan/placement.h"
#include "trainer/layout/parameters.h"

namespace autocfg::trainer {

struct ParameterUnit {
  UnitKind kind = UnitKind::kNorms;
  std::vector<std::size_t> parameters = {};  // indexes in the rank's list, in the order of the unit
  std::int64_t elements = 0;                 // with padding; a multiple of the number of shards
};

// Where a parameter lies.
struct UnitPlace {
  std::size_t unit = 0;
  std::int64_t offset = 0;  // first element within the unit
};

inline constexpr std::size_t kNormUnit = 0;

struct ParameterUnits {
  std::vector<ParameterUnit> units;  // that at kNormUnit has the norms
  std::vector<UnitPlace> places;     // by parameter
  // Elements at the start of the norms, padding included, whose gradients are of a rank's own heads.
  std::int64_t own_head_norms = 0;
  // Elements at the start of each layer's unit, padding included, of key-value heads that ranks share.
  std::int64_t shared_heads = 0;
};

// `shards`: the number of equal parts that each unit falls into.
ParameterUnits GroupParameters(const std::vector<Parameter>& parameters, std::int64_t shards);

// Elements [first, first + count) of a rank's part of a parameter, in the order of its memory.
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Returns the elements of a parameter, of `elements` in all, that are in part `shard` of the `shards` equal
// parts of its unit.
ElementRange OwnRangeOf(const ParameterUnit& unit, std::int64_t offset, std::int64_t elements,
                        std::int64_t shard, std::int64_t shards);

}  // namespace autocfg::trainer
