#include "search/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "search/cost/engine_costs.h"
#include "search/cost/timing/breakdown.h"
#include "search/cost/timing/closed_form.h"
#include "search/cost/timing/stage_times.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/model_stages.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {
namespace {

// An estimate uses the timer where the bound is not close, unless it would take long: among the many plans of
// a search, one that fills its pipeline with more computes than this is estimated by the bound.
constexpr std::int64_t kMostEstimatedComputes = 32'768;

// Returns how many computes it takes to fill the pipeline, of all ranks, which is what the timer walks
// through.
std::int64_t ComputesToFill(const ParallelPlan& plan) { return plan.pp * plan.pp * plan.virtual_stages; }

// Values of timed pipelines that are kept: some 4 MB.
constexpr std::size_t kMostWorkedSizes = 500'000;

// Returns what is said of a plan that takes more than the margin leaves of the capacity.
std::string WhyItDoesNotFit(const MemoryBytes& memory, std::int64_t capacity, double margin) {
  const MemoryRegion& largest = *std::max_element(
      kMemoryRegions.begin(), kMemoryRegions.end(),
      [&](const MemoryRegion& a, const MemoryRegion& b) { return memory.*a.bytes < memory.*b.bytes; });
  const std::int64_t bytes = memory.*largest.bytes;
  const std::string region =
      fmt::format("{} the largest region ({})", largest.subject, base::BytesText(bytes));
  const std::int64_t over = memory.Total() - capacity;
  if (over > 0) {
    return fmt::format("needs {} more than the {} a rank has; {}", base::BytesText(over),
                       base::BytesText(capacity), region);
  }
  const std::int64_t kept = capacity - UsableBytes(capacity, margin);
  return fmt::format("leaves {} of the {} a rank has free, less than the memory margin of {} ({}); {}",
                     base::BytesText(-over), base::BytesText(capacity), MarginText(margin),
                     base::BytesText(kept), region);
}

}  // namespace

CostModel::CostModel(Problem problem, OpTimes times, std::int64_t device_overhead_bytes, double memory_margin)
    : CostModel(std::move(problem), std::make_shared<const OpTimes>(std::move(times)), device_overhead_bytes,
                memory_margin) {}

CostModel::CostModel(Problem problem, std::shared_ptr<const OpTimeModel> times,
                     std::int64_t device_overhead_bytes, double memory_margin)
    : costs_(std::move(problem), std::move(times)),
      host_op_s_(costs_.op_times().HostOpSeconds()),
      device_overhead_bytes_(device_overhead_bytes),
      capacity_bytes_(MemoryCapacity(cluster())),
      memory_margin_(memory_margin) {}

std::int64_t CostModel::UsableBytes() const { return autocfg::UsableBytes(capacity_bytes_, memory_margin_); }

std::int64_t CostModel::UsableArenaBytes() const { return UsableBytes() - device_overhead_bytes_; }

std::int64_t CostModel::AllocatorReserve(std::int64_t allocated) const {
  const auto wanted =
      static_cast<std::int64_t>(cluster().engine.allocator_share * static_cast<double>(allocated));
  return std::min(wanted, std::max<std::int64_t>(UsableArenaBytes() - allocated, 0));
}

MemoryBytes CostModel::ArenaOf(const ParallelPlan& plan) const {
  return WorstRankMemory(problem().With(plan), cluster().engine);
}

Prediction CostModel::PredictMemory(const ParallelPlan& plan) const {
  Prediction prediction;
  prediction.memory = ArenaOf(plan);
  prediction.memory.allocator_reserve = AllocatorReserve(prediction.memory.Arena());
  prediction.memory.device_overhead = device_overhead_bytes_;
  const auto beside = static_cast<std::int64_t>(cluster().engine.memory_error *
                                                static_cast<double>(prediction.memory.Reserved()));
  prediction.memory_low_bytes = prediction.memory.Total() - beside;
  prediction.memory_high_bytes = prediction.memory.Total() + beside;
  prediction.capacity_bytes = capacity_bytes_;
  prediction.feasible = prediction.memory.Total() <= UsableBytes();
  if (!prediction.feasible)
    prediction.reason = WhyItDoesNotFit(prediction.memory, capacity_bytes_, memory_margin_);
  return prediction;
}

const std::vector<double>& CostModel::WorkedSecondsOf(const ParallelPlan& plan, const PipelineCosts& costs) {
  const double shared = costs_.RanksPerCore();
  WorkKey key{PipelineShape(model(), plan, MicrobatchCount(workload(), plan)), {costs.p2p_s}};
  // What follows the backwards.
  key.shape.gathers_parameters = key.shape.reduces_gradients = key.shape.sums_norm_gradients = false;
  key.shape.tied_embeddings = false;
  std::vector<double>& seconds = key.seconds;
  seconds.reserve(1 + 5 * costs.stages.size() + costs.ranks.size());
  for (const StageCosts& c : costs.stages) {
    seconds.insert(seconds.end(),
                   {UnloadedForward(c, shared), UnloadedBackward(c, shared), UnloadedWeights(c, shared),
                    UnloadedSaving(c, shared), UnloadedWeightSaving(c, shared)});
  }
  for (const RankCosts& rank : costs.ranks) seconds.push_back(rank.zero_s + rank.wait_s);
  if (const auto known = worked_.find(key); known != worked_.end()) return known->second;
  const std::size_t sizes = seconds.size() + costs.ranks.size();
  worked_sizes_ += sizes;
  if (worked_sizes_ > kMostWorkedSizes) {
    worked_.clear();
    worked_sizes_ = sizes;
  }
  std::vector<double> worked_s = TimeStep(timers_.Find(key.shape), costs, shared).worked_s;
  return worked_.emplace(std::move(key), std::move(worked_s)).first->second;
}

bool CostModel::IsTimed(const ParallelPlan& plan, const PipelineCosts& costs) const {
  return ComputesToFill(plan) <= kMostEstimatedComputes &&
         !PipelineBoundIsClose(costs, plan.schedule, MicrobatchCount(workload(), plan),
                               costs_.RanksPerCore());
}

Breakdown CostModel::BreakdownOf(const ParallelPlan& plan, const PipelineCosts& costs) {
  const double shared = costs_.RanksPerCore();
  const std::int64_t microbatches = MicrobatchCount(workload(), plan);
  if (!IsTimed(plan, costs)) {
    return autocfg::BreakdownOf(costs, microbatches, shared,
                                PipelineBound(costs, plan.schedule, microbatches, shared));
  }
  return autocfg::BreakdownOf(costs, microbatches, shared, WorkedSecondsOf(plan, costs));
}

std::optional<double> CostModel::ClosedFormAtLeast(const ParallelPlan& plan) {
  const double outside_s = bounds_.OutsidePipeline(costs_, plan);
  const PipelineCosts& costs = CostsOf(plan);
  if (!IsTimed(plan, costs)) return std::nullopt;
  const PipelineEnd end =
      PipelineBound(costs, plan.schedule, MicrobatchCount(workload(), plan), costs_.RanksPerCore());
  return kRoundedBound * (end.seconds - end.lead_s.front() + outside_s);
}

bool CostModel::BoundIsClose(const ParallelPlan& plan) {
  return PipelineBoundIsClose(CostsOf(plan), plan.schedule, MicrobatchCount(workload(), plan),
                              costs_.RanksPerCore());
}

Prediction CostModel::WithTime(const ParallelPlan& plan, const Breakdown& breakdown) const {
  Prediction prediction = PredictMemory(plan);
  prediction.breakdown = breakdown;
  prediction.step_time_s = breakdown.Total();
  prediction.step_time_low_s = prediction.step_time_high_s = prediction.step_time_s;
  return prediction;
}

Prediction CostModel::Estimate(const ParallelPlan& plan) {
  return WithTime(plan, BreakdownOf(plan, CostsOf(plan)));
}

double CostModel::EstimatedSeconds(const ParallelPlan& plan, double host_op_s) {
  return BreakdownOf(plan, costs_.PipelineOf(plan, host_op_s)).Total();
}

Prediction CostModel::Predict(const ParallelPlan& plan) {
  // Without a pipeline, a rank runs one action after the other, and the closed form is their exact sum.
  if (plan.pp == 1) return Estimate(plan);
  const PipelineCosts& costs = CostsOf(plan);
  return WithTime(plan, autocfg::BreakdownOf(costs, MicrobatchCount(workload(), plan), costs_.RanksPerCore(),
                                             WorkedSecondsOf(plan, costs)));
}

TracedStep CostModel::Trace(const ParallelPlan& plan) {
  const PipelineCosts& costs = CostsOf(plan);
  const RankMesh mesh(plan);
  absl::StatusOr<TracedStep> step =
      TraceProgram(Lower(problem().With(plan)), [&](std::int32_t rank, const Action& action) {
        return SecondsOf(costs, costs_.RanksPerCore(), mesh.Coordinate(rank, Axis::kPipeline), action);
      });
  // The program is valid by construction; a stuck one is a bug that must not pass as a time.
  if (!step.ok()) throw std::logic_error(std::string(step.status().message()));
  return *std::move(step);
}

double CostModel::HiddenComm(const ParallelPlan& plan) {
  const PipelineCosts& costs = CostsOf(plan);
  const auto collectives_s = [&](std::size_t rank) {
    const auto microbatches = static_cast<double>(MicrobatchCount(workload(), plan));
    double hidden_s = costs.ranks[rank].hidden_s;
    for (std::size_t stage = rank; stage < costs.stages.size(); stage += costs.ranks.size())
      hidden_s += costs.stages[stage].Hidden(microbatches);
    return hidden_s;
  };
  if (plan.pp == 1) return collectives_s(0);
  // One pipeline of the plan: ranks that differ only in their tensor or data coordinate do the same.
  ParallelPlan pipeline;
  pipeline.pp = plan.pp;
  pipeline.virtual_stages = plan.virtual_stages;
  pipeline.schedule = plan.schedule;
  pipeline.micro_batch = plan.micro_batch;
  pipeline.split = plan.split;
  pipeline.split_layers = plan.split_layers;
  Workload share = workload();
  share.global_batch /= BatchRanks(plan);
  const Program program = Lower({model(), share, pipeline});
  const auto step = TraceProgram(program, [&](std::int32_t rank, const Action& action) {
    return SecondsOf(costs, costs_.RanksPerCore(), rank, action);
  });
  if (!step.ok()) throw std::logic_error(std::string(step.status().message()));
  std::vector<std::vector<ActionTime>> times(program.ranks.size());
  for (const TraceRow& row : step->rows)
    times[static_cast<std::size_t>(row.rank)].push_back({row.start_s, row.end_s});
  double longest_s = -1, hidden_s = 0;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const RankBreakdown one = BreakdownOfRank(program.ranks[rank], times[rank], step->step_time_s, false);
    if (one.parts.compute > longest_s) hidden_s = one.hidden_comm_s + collectives_s(rank);
    longest_s = std::max(longest_s, one.parts.compute);
  }
  return hidden_s;
}

}  // namespace autocfg
