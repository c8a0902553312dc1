#include "search/cost/memory/memory_model.h"

#include "search/cost/memory/plan_memory.h"

namespace autocfg {

MemoryBytes RankMemory(const RunView& run, std::int64_t pipeline_rank, const EngineProfile& engine) {
  return PlanMemory(run, engine).Of(LoadOf(run, engine, pipeline_rank));
}

std::vector<std::int64_t> RankArenas(const RunView& run, const EngineProfile& engine) {
  const PlanMemory memory(run, engine);
  std::vector<std::int64_t> arenas;
  for (std::int64_t rank = 0; rank < run.plan.pp; ++rank)
    arenas.push_back(memory.Of(LoadOf(run, engine, rank)).Arena());
  return arenas;
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
