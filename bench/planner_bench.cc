// How many plans the planner evaluates per second on one core: memory and time by the closed form, over a
// whole search space of a GPT of 1.5 billion parameters on 1024 ranks (batch 1536, 48 layers, hidden size
// 1600 in 32 heads, so that every tp up to 32 is legal).
#include <cmath>
#include <vector>

#include "benchmark/benchmark.h"
#include "search/cost/cost_model.h"
#include "search/planner/calibration_ops.h"
#include "search/planner/search_loop.h"
#include "search/space/search_space.h"

namespace autocfg {
namespace {

constexpr std::int64_t kRanks = 1024;

ModelSpec Gpt() {
  ModelSpec model;
  model.name = "gpt-1.5b-like";
  model.layers = 48;
  model.hidden = 1600;
  model.heads = 32;
  model.vocab = 50257;
  FillDefaults(model);
  return model;
}

Workload Batch() { return {.global_batch = 1536, .seq_len = 1024, .precision = *ParsePrecision("fp32")}; }

ClusterSpec Cluster() {
  ClusterSpec cluster;
  cluster.name = "synthetic";
  NodeGroup group;
  group.device.name = "synthetic";
  group.device.memory_bytes = std::int64_t{80} << 30;
  group.nodes = kRanks / 8;
  group.gpus_per_node = 8;
  cluster.groups.push_back(group);
  return cluster;
}

// A roofline of an accelerator, for the ops that a calibration job would time; the others are estimated, as
// in a real search.
OpTimes Times(const std::vector<OpDesc>& ops) {
  std::vector<OpTime> times;
  for (const OpDesc& op : ops) {
    const double bytes = MinBytes(op);
    double seconds = 5e-6 + std::max(Flops(op) / 1e14, bytes / 1.5e12);
    if (IsCommunication(op.kind)) seconds = 1e-5 * std::log2(op.group_size + 1.0) + bytes / 1e11;
    times.push_back({op, seconds});
  }
  return OpTimes(times);
}

// Even splits, which need no resolving; of recompute the two ends.
std::vector<ParallelPlan> Plans() {
  const auto space =
      SearchSpace::Create(Gpt(), Batch(), kRanks, {{"split", {"even"}}, {"recompute", {"none", "full"}}});
  std::vector<ParallelPlan> plans;
  if (!space.ok()) return plans;
  space->ForEachLegal([&](const ParallelPlan& plan) {
    plans.push_back(plan);
    return true;
  });
  return plans;
}

// The whole space with empty caches, as a search meets it: every stage's costs are made once.
void BM_EvaluateSpaceCold(benchmark::State& state) {
  const std::vector<ParallelPlan> plans = Plans();
  const OpTimes times = Times(ListCalibrationOps(Gpt(), Batch(), plans));
  for (auto _ : state) {
    CostModel costs(Gpt(), Batch(), Cluster(), times);
    for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(costs.Predict(plan).step_time_s);
  }
  state.counters["plans"] = static_cast<double>(plans.size());
  state.SetItemsProcessed(static_cast<std::int64_t>(plans.size()) * state.iterations());
}
BENCHMARK(BM_EvaluateSpaceCold)->Unit(benchmark::kMillisecond);

// The same with the stages' costs cached.
void BM_EvaluateSpaceWarm(benchmark::State& state) {
  const std::vector<ParallelPlan> plans = Plans();
  CostModel costs(Gpt(), Batch(), Cluster(), Times(ListCalibrationOps(Gpt(), Batch(), plans)));
  for (auto _ : state) {
    for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(costs.Predict(plan).step_time_s);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(plans.size()) * state.iterations());
}
BENCHMARK(BM_EvaluateSpaceWarm)->Unit(benchmark::kMillisecond);

void BM_Memory(benchmark::State& state) {
  const std::vector<ParallelPlan> plans = Plans();
  const ModelSpec model = Gpt();
  const Workload workload = Batch();
  for (auto _ : state) {
    for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(WorstRankMemory(model, workload, plan));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(plans.size()) * state.iterations());
}
BENCHMARK(BM_Memory);

// Enumeration and legality of the whole space.
void BM_Enumerate(benchmark::State& state) {
  const auto space = SearchSpace::Create(Gpt(), Batch(), kRanks, {});
  std::int64_t enumerated = 0;
  for (auto _ : state) {
    enumerated = space->ForEachLegal([](const ParallelPlan& plan) {
      benchmark::DoNotOptimize(plan.tp);
      return true;
    }).enumerated;
  }
  state.SetItemsProcessed(enumerated * state.iterations());
}
BENCHMARK(BM_Enumerate)->Unit(benchmark::kMillisecond);

// The same with the splits made definite and the memory of all: what Create does.
void BM_CreateSearch(benchmark::State& state) {
  std::int64_t enumerated = 0;
  for (auto _ : state) {
    const auto loop = SearchLoop::Create(Gpt(), Batch(), Cluster(), {}, {});
    enumerated = loop->counts().enumerated;
  }
  state.SetItemsProcessed(enumerated * state.iterations());
}
BENCHMARK(BM_CreateSearch)->Unit(benchmark::kMillisecond);

void BM_Simulate(benchmark::State& state) {
  ParallelPlan plan;
  plan.tp = 8;
  plan.pp = 8;
  plan.dp = 16;
  CostModel costs(Gpt(), Batch(), Cluster(), Times(ListCalibrationOps(Gpt(), Batch(), {plan})));
  for (auto _ : state) benchmark::DoNotOptimize(costs.Simulate(plan).step_time_s);
}
BENCHMARK(BM_Simulate)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace autocfg
