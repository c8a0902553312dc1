#include "search/cost/memory/memory_model.h"

#include "search/cost/memory/plan_memory.h"

namespace autocfg {

MemoryBytes RankMemory(const RunView& run, std::int64_t pipeline_rank, const EngineProfile& engine) {
  return PlanMemory(run, engine).Of(LoadOf(run, engine, pipeline_rank));
}

MemoryBytes WorstRankMemory(const RunView& run, const EngineProfile& engine) {
  const PlanMemory memory(run, engine);
  MemoryBytes worst;
  for (const RankLoad& load : LargestLoads(run, engine)) {
    const MemoryBytes bytes = memory.Of(load);
    if (bytes.Arena() > worst.Arena()) worst = bytes;
  }
  return worst;
}

}  // namespace autocfg
