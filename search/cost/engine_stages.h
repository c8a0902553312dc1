// The stages that an engine makes of a model by itself (EngineProfile::splits_by_weight). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Returns the layers of each stage: layers, and then the output layer, go to the first stage until the weights
// of their products reach its even part of the sum, then to the next one (nanotron's build_model,
// src/nanotron/models/base.py). Every stage gets a layer, which nanotron does not ensure. Requires as many
// layers as stages.
std::vector<std::int64_t> StagesByWeight(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace autocfg
