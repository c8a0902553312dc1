// Stages of equal weight: those that an engine makes of a model by itself (EngineProfile::splits_by_weight).
// Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan/model_spec.h"

namespace autocfg {

// Returns the layers of each stage: layers, and then the output layer, go to the first stage until the
// weights of their products reach its even part of the sum, then to the next one (nanotron's build_model,
// src/nanotron/models/base.py; where a sum is its part exactly, as in the runs that its authors published). A
// stage may have none.
std::vector<std::int64_t> StagesByWeight(const ModelSpec& model, std::int64_t stages);

// Returns the stages with a layer in each: one that has none takes it from the last before it that has two.
// Requires as many layers as stages.
std::vector<std::int64_t> WithALayerEach(std::vector<std::int64_t> layers);

}  // namespace autocfg
