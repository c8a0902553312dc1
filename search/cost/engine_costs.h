// What the engine of a cluster does otherwise than ours, as costs and memory
// (search/plan/cluster/engine_profile.h). Pure, thread-safe.
#pragma once

#include "search/cost/memory/memory_model.h"
#include "search/cost/stage_costs.h"
#include "search/plan/cluster/engine_profile.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"

namespace autocfg {

// Adds its further passes to the layers, `pass_s` seconds each, and repeats whole layers if it does so.
void AddEngineCosts(const EngineProfile& engine, const ParallelPlan& plan, double pass_s, BlockCosts& blocks);

// Returns whether its memory is another than ours, without that of its device.
bool NeedsMemory(const EngineProfile& engine);

// As WorstRankMemory of memory_model.h, with the memory of the engine.
MemoryBytes WorstRankMemory(const EngineProfile& engine, const RunView& run);

// Returns the plan with the overlap that it always has.
ParallelPlan WithEngineOverlap(const EngineProfile& engine, ParallelPlan plan);

}  // namespace autocfg
