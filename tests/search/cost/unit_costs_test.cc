// Compares the predicted seconds of reductions that run beside computes with those of the lists of ops: of
// sharded gradients in each backward, and of whole ones after the rank's last compute.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/fnv1a.h"
#include "gtest/gtest.h"
#include "search/cost/cost_model.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/plan/placement.h"
#include "search/plan/plan_text.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/compute_order.h"
#include "search/schedule/program.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::RandomRun;
using test::RandomRuns;

// Times between 1 us and 1 ms, different for every op. Messages take `scale` times as long.
class HashedTimes final : public OpTimeModel {
 public:
  explicit HashedTimes(double scale) : scale_(scale) {}
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    const double seconds = 1e-6 * static_cast<double>(1 + (base::Fnv1a(ToString(op)) >> 20) % 1000);
    return IsCommunication(op.kind) ? seconds * scale_ : seconds;
  }

 private:
  const double scale_;
};

CostModel CostsBesideComputes(const RandomRun& run, std::shared_ptr<const OpTimeModel> times) {
  ClusterSpec cluster = test::LocalRanks(RankCount(run.plan));
  cluster.groups.front().device.kind = DeviceKind::kCuda;
  return CostModel({run.model, run.workload, cluster}, std::move(times));
}

// Runs a list of ops: reductions of units one after the other beside the rest, from where they stand in the
// list. An add of a reduced gradient waits for the earliest reduction that has none.
struct ListedSeconds {
  double computed_s = 0, reduced_s = 0;

  ListedSeconds(const RandomRun& run, const OpTimeModel& times, const std::vector<OpDesc>& ops) {
    std::vector<double> ends_s;
    std::size_t added = 0;
    for (const OpDesc& op : ops) {
      const double op_s = times.Seconds(op, run.plan);
      const bool scattered = op.kind == OpKind::kReduceScatter && op.group == CommGroup::kShard;
      if (scattered || op.group == CommGroup::kData) {
        reduced_s = std::max(computed_s, reduced_s) + op_s;
        ends_s.push_back(reduced_s);
        continue;
      }
      if (op.kind == OpKind::kResidualAdd && ShardsGradients(run.plan) && op.dims[1] == 64)
        computed_s = std::max(computed_s, ends_s.at(added++));
      computed_s += op_s;
    }
  }
};

TEST(UnitCosts, BackwardsOfShardedGradientsTakeTheTimeOfTheirOps) {
  std::mt19937_64 random(81);
  int hidden = 0;
  for (int i = 0; i < 200; ++i) {
    RandomRun run{test::SmallGpt(static_cast<std::int64_t>(1 + random() % 4), 64, 4, 128),
                  test::Fp32(8, 16),
                  {{.dp = 2}, {}, {}, {}, {.zero_stage = 2, .grad_overlap = true}}};
    run.model.tied_embeddings = random() % 2 == 0;
    if (random() % 2 == 0) run.model.position = Position::kRope;
    run.model.vocab = static_cast<std::int64_t>(64 * (2 + random() % 100));  // other ops, other times
    const auto times = std::make_shared<HashedTimes>(std::vector{0.3, 2.0, 20.0}[random() % 3]);
    CostModel costs = CostsBesideComputes(run, times);
    // The list of the first microbatch, which adds nothing, does not say where it waits for a buffer.
    const Action action{.kind = ActionKind::kBackward, .stage = 0, .microbatch = 1};
    const std::vector<OpDesc> ops = ActionOps(run, 0, action);
    const ListedSeconds listed(run, *times, ops);
    const double want_s = std::max(listed.computed_s, listed.reduced_s);
    ASSERT_NEAR(costs.CostsOf(run.plan).stages.front().backward_s, want_s, 1e-9 * want_s) << "run " << i;
    double sum_s = 0;
    for (const OpDesc& op : ops) sum_s += times->Seconds(op, run.plan);
    hidden += want_s < 0.95 * sum_s;
  }
  EXPECT_GT(hidden, 100);
}

TEST(UnitCosts, RankReducesWhatItsLastComputeDoesNotHide) {
  RandomRuns runs(82, {.dp = {2, 3, 4}});
  std::mt19937_64 random(83);
  std::map<Schedule, int> hidden;
  for (int i = 0; i < 1500; ++i) {
    RandomRun run = runs.Next();
    run.plan.tp_overlap = 1;  // computes are the sum of their ops
    const ParallelPlan& plan = run.plan;
    if (!OverlapsGradients(plan) || ShardsGradients(plan)) continue;
    SCOPED_TRACE(PlanText(plan));
    const auto times = std::make_shared<HashedTimes>(std::vector{0.1, 1.0, 5.0}[random() % 3]);
    CostModel costs = CostsBesideComputes(run, times);
    const PipelineCosts predicted = costs.CostsOf(plan);
    const Program program = Lower({run.model, run.workload, plan});
    for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
      double after_s = 0, norms_s = 0, reduce_s = 0;
      for (const Action& action : program.ranks[static_cast<std::size_t>(rank * plan.tp * plan.dp)]) {
        const bool last = IsLastCompute(plan, MicrobatchCount(run.workload, plan), action);
        if (!last && IsMicrobatch(action.kind)) continue;
        const auto ops = ActionOps({run.model, run.workload, plan}, rank, action);
        double sum_s = 0;
        for (const OpDesc& op : ops) sum_s += times->Seconds(op, plan);
        if (action.kind == ActionKind::kSumNormGradients) norms_s = sum_s;
        if (action.kind == ActionKind::kReduceGradients) reduce_s = sum_s;
        if (!last) continue;
        const ListedSeconds listed(run, *times, ops);
        after_s = std::max(0.0, listed.reduced_s - listed.computed_s);
        hidden[plan.schedule] += listed.computed_s + after_s < 0.95 * sum_s;
      }
      const double want_s = reduce_s + std::max(0.0, after_s - norms_s);
      ASSERT_NEAR(predicted.ranks[static_cast<std::size_t>(rank)].reduce_s, want_s, 1e-9 * (1e-3 + want_s))
          << "rank " << rank;
    }
  }
  EXPECT_EQ(hidden.size(), kScheduleCount);
  for (const auto& [schedule, count] : hidden) EXPECT_GE(count, 20) << Name(schedule);
}

}  // namespace
}  // namespace autocfg
