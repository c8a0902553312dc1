// Measures how many plans per second the planner evaluates: memory and time in closed form, over whole grids
// of plans; on one core, where a benchmark names no number of threads. The models are a GPT of 1.5 billion
// parameters (48 layers, hidden size 1600 in 32 heads, so that every tp up to 32 is legal) and a Llama of 70
// billion, on 1024 ranks with a batch of 1536.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "search/cost/cost_model.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/cost/split.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/planner/calibration_ops.h"
#include "search/planner/search_loop.h"
#include "search/space/search_space.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

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

// A roofline model of an accelerator, for the ops that a calibration job would time. The others are
// estimated, as in a real search.
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

// Grouped-query attention and gated activations; its 96 layers spread over many stages.
ModelSpec Llama() {
  ModelSpec model;
  model.name = "llama-70b-like";
  model.layers = 96;
  model.hidden = 8192;
  model.heads = 64;
  model.kv_heads = 8;
  model.ffn_hidden = 28672;
  model.vocab = 128256;
  model.activation = Activation::kSwiGlu;
  model.norm = Norm::kRmsNorm;
  model.position = Position::kRope;
  SetBiases(model, false);
  model.tied_embeddings = false;
  FillDefaults(model);
  return model;
}

using Values = std::vector<std::string>;
const Values kPlain = {"gpipe", "1f1b"};
const Values kInterleaved = {"interleaved"};
const Values kZeroBubble = {"zb-h1"};

// Returns the legal plans of all ranks with one of these schedules, with resolved splits. Of recompute it
// covers both extremes and one value between.
std::vector<ParallelPlan> Plans(const ModelSpec& model, const Values& schedules,
                                const std::string& split = "even") {
  const auto space = SearchSpace::Create(
      model, Batch(), kRanks,
      {{"schedule", schedules}, {"split", {split}}, {"recompute", {"none", "full", "full:1"}}});
  CostModel costs({model, Batch(), Cluster()}, OpTimes());
  std::vector<ParallelPlan> plans;
  if (!space.ok()) return plans;
  space->ForEachLegal([&](const ParallelPlan& plan) {
    plans.push_back(ResolveSplit(costs, plan));
    return true;
  });
  return plans;
}

// Evaluates all plans with empty caches, as a search does: the costs of every part are computed once.
void BM_EvaluateCold(benchmark::State& state, const ModelSpec& model, const Values& schedules,
                     const std::string& split) {
  const std::vector<ParallelPlan> plans = Plans(model, schedules, split);
  const OpTimes times = Times(ListCalibrationOps(model, Batch(), plans));
  for (auto _ : state) {
    CostModel costs({model, Batch(), Cluster()}, times);
    for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(costs.Estimate(plan).step_time_s);
  }
  state.counters["plans"] = static_cast<double>(plans.size());
  state.SetItemsProcessed(static_cast<std::int64_t>(plans.size()) * state.iterations());
}
BENCHMARK_CAPTURE(BM_EvaluateCold, gpt_plain, Gpt(), kPlain, "even")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateCold, gpt_interleaved, Gpt(), kInterleaved, "even")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateCold, gpt_zero_bubble, Gpt(), kZeroBubble, "even")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateCold, llama_plain, Llama(), kPlain, "even")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateCold, llama_interleaved, Llama(), kInterleaved, "even")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateCold, llama_plain_auto, Llama(), kPlain, "auto")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateCold, llama_interleaved_auto, Llama(), kInterleaved, "auto")
    ->Unit(benchmark::kMillisecond);

// Does the same with the costs of all parts cached.
void BM_EvaluateWarm(benchmark::State& state, const ModelSpec& model, const Values& schedules) {
  const std::vector<ParallelPlan> plans = Plans(model, schedules);
  CostModel costs({model, Batch(), Cluster()}, Times(ListCalibrationOps(model, Batch(), plans)));
  for (auto _ : state) {
    for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(costs.Estimate(plan).step_time_s);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(plans.size()) * state.iterations());
}
BENCHMARK_CAPTURE(BM_EvaluateWarm, gpt_plain, Gpt(), kPlain)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateWarm, gpt_zero_bubble, Gpt(), kZeroBubble)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_EvaluateWarm, llama_interleaved, Llama(), kInterleaved)->Unit(benchmark::kMillisecond);

void BM_Memory(benchmark::State& state, const ModelSpec& model, const Values& schedules) {
  const std::vector<ParallelPlan> plans = Plans(model, schedules);
  const Workload workload = Batch();
  for (auto _ : state) {
    for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(WorstRankMemory({model, workload, plan}));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(plans.size()) * state.iterations());
}
BENCHMARK_CAPTURE(BM_Memory, gpt_plain, Gpt(), kPlain);
BENCHMARK_CAPTURE(BM_Memory, llama_interleaved, Llama(), kInterleaved);

void BM_ResolveSplit(benchmark::State& state) {
  ParallelPlan plan;
  plan.pp = 16;
  plan.dp = 64;
  plan.virtual_stages = 3;
  plan.schedule = Schedule::kInterleaved;
  plan.split = SplitMode::kAuto;
  CostModel costs({Llama(), Batch(), Cluster()},
                  Times(ListCalibrationOps(Llama(), Batch(), Plans(Llama(), kInterleaved))));
  for (auto _ : state) benchmark::DoNotOptimize(ResolveSplit(costs, plan));
}
BENCHMARK(BM_ResolveSplit);

// Enumerates the whole space and checks legality.
void BM_Enumerate(benchmark::State& state) {
  const auto space = SearchSpace::Create(Gpt(), Batch(), kRanks, {});
  std::int64_t enumerated = 0;
  for (auto _ : state) {
    enumerated = space
                     ->ForEachLegal([](const ParallelPlan& plan) {
                       benchmark::DoNotOptimize(plan.tp);
                       return true;
                     })
                     .enumerated;
  }
  state.SetItemsProcessed(enumerated * state.iterations());
}
BENCHMARK(BM_Enumerate)->Unit(benchmark::kMillisecond);

// Does the same and resolves the splits and the memory of all plans, as Create does.
void BM_CreateSearch(benchmark::State& state) {
  std::int64_t enumerated = 0;
  for (auto _ : state) {
    const auto loop = SearchLoop::Create({Gpt(), Batch(), Cluster()}, {}, {});
    enumerated = loop->counts().enumerated;
  }
  state.SetItemsProcessed(enumerated * state.iterations());
}
BENCHMARK(BM_CreateSearch)->Unit(benchmark::kMillisecond);

// Searches by prediction alone, with op times that need no calibration: finds the plans that fit and predicts
// them. Items are the plans that got a time.
void BM_PredictSearch(benchmark::State& state) {
  const SearchOptions options{.predict_only = true};
  const KnownOpTimes known{std::make_shared<const NominalTimes>(), 0};
  std::int64_t evaluated = 0;
  for (auto _ : state) {
    auto loop = SearchLoop::Create({Gpt(), Batch(), Cluster()}, {}, options, {}, known);
    if (!loop.ok() || !loop->SetCalibration(known.times, known.device_overhead_bytes).ok()) {
      state.SkipWithError("no search");
      return;
    }
    evaluated = loop->counts().evaluated;
  }
  state.SetItemsProcessed(evaluated * state.iterations());
}
BENCHMARK(BM_PredictSearch)->Unit(benchmark::kMillisecond);

// Answers a search by prediction on a preset cluster, every option open: enumerates the plans, finds those
// that fit, and answers with the best one, ten runners-up, what matters most and the front of time against
// memory. Items are the plans evaluated: their legality, memory and time (or a lower bound that rules them
// out) are known.
void BM_AnswerSearch(benchmark::State& state, const std::string& model_name,
                     const std::string& cluster_name) {
  const ModelSpec model = *ModelPreset(model_name);
  const ClusterSpec cluster = *PresetCluster(cluster_name);
  const Workload workload{
      .global_batch = 1536, .seq_len = model.max_seq_len, .precision = *ParsePrecision("bf16")};
  const auto times = ClusterOpTimes::Create(cluster, workload.precision);
  const KnownOpTimes known{*times, DeviceOverheadBytes(cluster)};
  std::int64_t evaluated = 0, legal = 0;
  for (auto _ : state) {
    auto loop =
        SearchLoop::Create({model, workload, cluster}, {},
                           {.predict_only = true, .memory_margin = kDescribedMemoryMargin}, {}, known);
    if (!loop.ok() || !loop->SetCalibration(known.times, known.device_overhead_bytes).ok()) {
      state.SkipWithError("no search");
      return;
    }
    benchmark::DoNotOptimize(loop->Ranking(11));
    benchmark::DoNotOptimize(loop->MattersMost());
    benchmark::DoNotOptimize(loop->MemoryFront(20));
    evaluated = loop->counts().evaluated;
    legal = loop->counts().enumerated - loop->counts().illegal;
  }
  state.counters["legal"] = static_cast<double>(legal);
  state.counters["evaluated"] = static_cast<double>(evaluated);
  state.SetItemsProcessed(evaluated * state.iterations());
}
BENCHMARK_CAPTURE(BM_AnswerSearch, gpt3_175b_512, "gpt3-175b", "a100-80gb-sxm:64x8")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AnswerSearch, megatron_1000b_3072, "megatron-1000b", "a100-80gb-sxm:384x8")
    ->Unit(benchmark::kMillisecond);

// Simulates a few ranks with one stage each, or 64 with two; 512 microbatches.
void BM_Simulate(benchmark::State& state, std::int64_t pp, std::int64_t vpp) {
  ParallelPlan plan;
  plan.pp = pp;
  plan.virtual_stages = vpp;
  if (vpp > 1) plan.schedule = Schedule::kInterleaved;
  ModelSpec model = Gpt();
  model.layers = pp * vpp;
  Workload workload = Batch();
  workload.global_batch = 512;
  CostModel costs({model, workload, Cluster()}, Times(ListCalibrationOps(model, workload, {plan})));
  for (auto _ : state) benchmark::DoNotOptimize(costs.Predict(plan).step_time_s);
}
BENCHMARK_CAPTURE(BM_Simulate, pp8, 8, 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Simulate, pp64_vpp2, 64, 2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace autocfg
