// What the engine of a cluster does otherwise than ours, as costs (search/plan/cluster/engine_profile.h; its
// memory: memory/plan_memory.h). Pure, thread-safe.
#pragma once

#include "search/cost/stage_costs.h"
#include "search/plan/cluster/engine_profile.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Adds its further passes to the layers, `pass_s` seconds each, and repeats whole layers if it does so.
void AddEngineCosts(const EngineProfile& engine, const ParallelPlan& plan, double pass_s, BlockCosts& blocks);

// Returns the plan with the overlap that it always has.
ParallelPlan WithEngineOverlap(const EngineProfile& engine, ParallelPlan plan);

}  // namespace autocfg
