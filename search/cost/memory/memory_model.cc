#include "search/cost/memory/memory_model.h"

#include "search/cost/memory/plan_memory.h"

namespace autocfg {

MemoryBytes RankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                       std::int64_t pipeline_rank) {
  return PlanMemory(model, workload, plan).Of(LoadOf(model, workload, plan, pipeline_rank));
}

MemoryBytes WorstRankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  const PlanMemory memory(model, workload, plan);
  MemoryBytes worst;
  for (const RankLoad& load : LargestLoads(model, workload, plan)) {
    const MemoryBytes bytes = memory.Of(load);
    if (bytes.Arena() > worst.Arena()) worst = bytes;
  }
  return worst;
}

}  // namespace autocfg
