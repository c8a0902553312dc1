// What the engine of a cluster does otherwise than ours, as costs and memory
// (search/plan/cluster/engine_profile.h). Pure, thread-safe.
#pragma once

#include "search/cost/memory/memory_model.h"
#include "search/cost/stage_costs.h"
#include "search/plan/cluster/engine_profile.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/precision.h"

namespace autocfg {

// Adds its further passes to the layers, `pass_s` seconds each, and repeats whole layers if it does so.
void AddEngineCosts(const EngineProfile& engine, const ParallelPlan& plan, double pass_s, BlockCosts& blocks);

// Returns whether AddEngineMemory adds any.
bool NeedsMemory(const EngineProfile& engine);

// Adds the memory that it needs beside ours, without that of its device.
void AddEngineMemory(const EngineProfile& engine, const Precision& precision, MemoryBytes& memory);

// Returns the plan with the overlap that it always has.
ParallelPlan WithEngineOverlap(const EngineProfile& engine, ParallelPlan plan);

}  // namespace autocfg
