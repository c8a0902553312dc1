#include "search/cost/memory/memory_model.h"

#include "search/cost/memory/plan_memory.h"

namespace autocfg {

MemoryBytes RankMemory(const RunView& run, std::int64_t pipeline_rank) {
  return PlanMemory(run).Of(LoadOf(run, pipeline_rank));
}

MemoryBytes WorstRankMemory(const RunView& run) {
  const PlanMemory memory(run);
  MemoryBytes worst;
  for (const RankLoad& load : LargestLoads(run)) {
    const MemoryBytes bytes = memory.Of(load);
    if (bytes.Arena() > worst.Arena()) worst = bytes;
  }
  return worst;
}

}  // namespace autocfg
