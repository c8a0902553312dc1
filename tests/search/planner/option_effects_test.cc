#include "search/planner/option_effects.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "search/planner/shortlist.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::SmallGpt;
using testing::HasSubstr;

constexpr std::int64_t kNoLimitBytes = std::int64_t{1} << 50;

double Uncorrected(const ParallelPlan&) { return 1; }

// The plans of a space that fit, with their times.
struct Planned {
  Planned(const ModelSpec& model, const Workload& workload, std::int64_t ranks,
          std::shared_ptr<const OpTimeModel> times, const AxisValues& values,
          std::int64_t capacity = kNoLimitBytes)
      : costs({model, workload, WithMemory(LocalRanks(ranks), capacity)}, std::move(times)) {
    auto space = SearchSpace::Create(model, workload, ranks, values, {.predict_only = true});
    EXPECT_TRUE(space.ok()) << space.status();
    feasible = *FindFeasiblePlans(*space, costs, costs.UsableArenaBytes());
    EXPECT_TRUE(PredictTimes(costs, feasible).ok());
  }
  static ClusterSpec WithMemory(ClusterSpec cluster, std::int64_t bytes) {
    cluster.groups.front().device.memory_bytes = bytes;
    return cluster;
  }
  ParallelPlan Fastest() const {
    const auto found = std::min_element(feasible.plans.begin(), feasible.plans.end(),
                                        [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    return feasible.PlanAt(static_cast<std::size_t>(found - feasible.plans.begin()));
  }

  CostModel costs;
  FeasiblePlans feasible;
};

// A forward or a backward of attention takes a second, and so does a sum over the tensor group. All else
// takes almost nothing.
class SecondsEach final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    const bool attention = op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionBackward;
    const bool sum = op.kind == OpKind::kAllReduceSum && op.group == CommGroup::kTensor && op.dims[0] > 1000;
    return attention || sum ? 1 : 1e-12;
  }
};

const AxisValues kPlain = {{"sp", {"0"}},           {"zero", {"0"}},        {"split", {"even"}},
                           {"recompute", {"none"}}, {"schedule", {"1f1b"}}, {"mbs", {"1"}}};

AxisValues PlainWith(const std::string& axis, const std::vector<std::string>& values) {
  AxisValues space = kPlain;
  const auto found =
      std::find_if(space.begin(), space.end(), [&](const auto& known) { return known.first == axis; });
  if (found == space.end()) {
    space.emplace_back(axis, values);
  } else {
    found->second = values;
  }
  return space;
}

// Two ranks, four layers, four sequences. With dp=2 a rank has 2 microbatches of 4 x 2 s. With tp=2 it has 4
// of 4 x (2 + 4) s, since a layer has four sums, and what those of the embedding and the head take.
TEST(OptionEffects, MeshSizesChangeTogether) {
  Planned planned(SmallGpt(4), Fp32(4, 64), 2, std::make_shared<const SecondsEach>(), PlainWith("pp", {"1"}));
  const ParallelPlan best = planned.Fastest();
  EXPECT_EQ(PlanText(best), "tp=1,pp=1,dp=2,mbs=1");
  const auto effects = EstimateEffects(planned.costs, planned.feasible, best, Uncorrected);
  ASSERT_EQ(effects.size(), 2u);
  for (const OptionEffect& effect : effects) {
    EXPECT_TRUE(effect.option->name == "tp" || effect.option->name == "dp");
    EXPECT_EQ(PlanText(effect.instead), "tp=2,pp=1,dp=1,mbs=1");
    EXPECT_TRUE(effect.only_this_changed);
    EXPECT_GE(effect.costs, 5 - 1e-6)
        << "96 s in place of 16 s, and what the sums of embedding and head take";
    EXPECT_LE(effect.costs, 5 + 4 * 4 / 16.0);
  }
  const auto most = MattersMost(planned.costs, planned.feasible, best, Uncorrected);
  ASSERT_TRUE(most);
  EXPECT_EQ(most->option->name, "tp") << "the first of those that cost the same";
  EXPECT_THAT(most->because, HasSubstr("tp=2 in place of tp=1 costs "));
  EXPECT_THAT(most->because, HasSubstr("%: tensor communication takes "));
  EXPECT_THAT(most->because, HasSubstr("; its group has 2 ranks in place of 1"));
}

// A microbatch takes as long whatever its size. All other options have one value.
TEST(OptionEffects, IsTheOneOptionWithOtherValues) {
  Planned planned(SmallGpt(4), Fp32(4, 64), 1, std::make_shared<const SecondsEach>(),
                  PlainWith("mbs", {"1", "2", "4"}));
  const ParallelPlan best = planned.Fastest();
  EXPECT_EQ(best.micro_batch, 4);
  const auto most = MattersMost(planned.costs, planned.feasible, best, Uncorrected);
  ASSERT_TRUE(most);
  EXPECT_EQ(most->option->name, "mbs");
  EXPECT_EQ(most->instead.micro_batch, 2) << "the value that costs the least";
  EXPECT_NEAR(most->costs, 1, 1e-6) << "two microbatches in place of one";
  EXPECT_THAT(most->because, HasSubstr("mbs=2 in place of mbs=4 costs 100%: compute takes 8 s more; its ops "
                                       "are smaller"));
  // A correction that makes the other value three times as fast leaves no option that matters.
  const auto corrected = [](const ParallelPlan& plan) { return plan.micro_batch == 2 ? 1.0 / 3 : 1.0; };
  EXPECT_FALSE(MattersMost(planned.costs, planned.feasible, best, corrected));
  // The costs are corrected, 24 s in place of 8 s; the reason is not, 16 s in place of 8 s, and says so.
  const auto slower = [](const ParallelPlan& plan) { return plan.micro_batch == 4 ? 1 : 1.5; };
  const auto scaled = MattersMost(planned.costs, planned.feasible, best, slower);
  ASSERT_TRUE(scaled);
  EXPECT_THAT(scaled->because, HasSubstr("mbs=2 in place of mbs=4 costs 200%: by the uncorrected prediction, "
                                         "compute takes 8 s more; "));
}

// Of two ranks, the best plan has dp=2. A microbatch of 2 sequences with dp=2 needs a batch of 4.
TEST(OptionEffects, SaysWhetherThePlanWithTheOtherValueIsIllegalOrDoesNotFit) {
  AxisValues space = PlainWith("mbs", {"1", "2"});
  space.emplace_back("tp", std::vector<std::string>{"1"});
  const auto times = std::make_shared<const SecondsEach>();
  const ModelSpec model = SmallGpt(4);
  const ParallelPlan best = *ParsePlanText("tp=1,pp=1,dp=2,mbs=1");
  const ParallelPlan alone = *ParsePlanText("tp=1,pp=1,dp=2,mbs=2");
  const ParallelPlan other = *ParsePlanText("tp=1,pp=2,dp=1,mbs=2");
  const auto slow = [](const ParallelPlan& plan) { return plan.micro_batch == 2 ? 4.0 : 1.0; };
  const auto said = [&](std::int64_t batch, std::int64_t capacity) {
    Planned planned(model, Fp32(batch, 64), 2, times, space, capacity);
    const auto most = MattersMost(planned.costs, planned.feasible, best, slow);
    EXPECT_TRUE(most);
    return most ? most->because : "";
  };
  EXPECT_THAT(said(2, kNoLimitBytes),
              HasSubstr("no legal plan has mbs=2 in place of mbs=1 and is else the same; the fastest one"));
  CostModel costs({model, Fp32(4, 64), LocalRanks(2)}, times);
  const auto bytes = [&](const ParallelPlan& plan) { return costs.PredictMemory(plan).memory.Total(); };
  const std::int64_t capacity = std::max(bytes(best), bytes(other));
  ASSERT_LT(capacity, bytes(alone));
  EXPECT_THAT(
      said(4, capacity),
      HasSubstr("no plan that fits has mbs=2 in place of mbs=1 and is else the same; the fastest one"));
}

TEST(OptionEffects, NothingMattersIfThereIsOnePlan) {
  Planned planned(SmallGpt(4), Fp32(4, 64), 1, std::make_shared<const SecondsEach>(), kPlain);
  ASSERT_EQ(planned.feasible.plans.size(), 1u);
  EXPECT_TRUE(EstimateEffects(planned.costs, planned.feasible, planned.Fastest(), Uncorrected).empty());
  EXPECT_FALSE(MattersMost(planned.costs, planned.feasible, planned.Fastest(), Uncorrected));
}

// Compares with a search through all plans, with memory for half of them.
TEST(OptionEffects, AreThoseOfTheFastestOtherPlans) {
  const ModelSpec model = SmallGpt(12, 128, 8);
  const Workload workload = Fp32(16, 32);
  const auto times = std::make_shared<const NominalTimes>();
  const AxisValues every_value = test::EveryDerivedValue();
  std::vector<std::int64_t> bytes;
  for (const FeasiblePlan& plan : Planned(model, workload, 8, times, every_value).feasible.plans)
    bytes.push_back(std::int64_t{1024} * plan.choice.arena_kib);
  std::sort(bytes.begin(), bytes.end());
  int alone = 0, freed = 0, cheaper = 0;
  const auto idle = [](const PlanOption& option, const ParallelPlan& plan) {
    return option.redundant != nullptr && !option.redundant(plan).empty();
  };
  for (const std::size_t share : {2, 4, 20, 100}) {
    Planned planned(model, workload, 8, times, every_value, bytes[bytes.size() / share]);
    const ParallelPlan best = planned.Fastest();
    CostModel& costs = planned.costs;
    const double best_s = costs.Estimate(best).step_time_s;
    for (const OptionEffect& effect : EstimateEffects(costs, planned.feasible, best, Uncorrected)) {
      SCOPED_TRACE(PlanText(best) + " " + std::string(effect.option->name) + " " + PlanText(effect.instead));
      EXPECT_FALSE(effect.option->equal(effect.instead, best));
      EXPECT_FALSE(idle(*effect.option, best) || idle(*effect.option, effect.instead));
      EXPECT_FALSE(FindIllegality({model, workload, effect.instead}, 8));
      EXPECT_EQ(RankCount(effect.instead), 8);
      EXPECT_NE(effect.instead.split, SplitMode::kAuto);
      EXPECT_TRUE(costs.PredictMemory(effect.instead).feasible);
      EXPECT_NEAR(effect.costs, costs.Estimate(effect.instead).step_time_s / best_s - 1, 1e-9);
      freed += effect.only_this_changed ? 0 : 1;
      if (effect.alone) {
        ++alone;
        EXPECT_LE(effect.costs, effect.costs_alone);
        EXPECT_NEAR(effect.costs_alone, costs.Estimate(*effect.alone).step_time_s / best_s - 1, 1e-9);
        EXPECT_EQ(effect.only_this_changed, effect.instead == *effect.alone);
        cheaper += effect.costs_alone > effect.costs + kMuchMoreAlone ? 1 : 0;
      }
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < planned.feasible.plans.size(); ++i) {
        const ParallelPlan plan = planned.feasible.PlanAt(i);
        if (effect.option->equal(plan, best)) continue;
        least = std::min(least, planned.feasible.plans[i].seconds);
        // Planning may know a time that is more exact than the estimate.
        const double seconds = std::max(planned.feasible.plans[i].seconds, costs.Estimate(plan).step_time_s);
        EXPECT_LE(effect.costs, seconds / best_s - 1 + 1e-6) << PlanText(plan);
        ParallelPlan same = plan;
        effect.option->copy(best, same);
        if (same != best) continue;
        ASSERT_TRUE(effect.alone) << PlanText(plan) << " fits and differs in this alone";
        EXPECT_LE(effect.costs_alone, costs.Estimate(plan).step_time_s / best_s - 1 + 1e-9) << PlanText(plan);
      }
      if (!effect.only_this_changed) {
        const auto found = std::find_if(
            planned.feasible.plans.begin(), planned.feasible.plans.end(), [&](const FeasiblePlan& plan) {
              return planned.feasible.table.Unpack(plan.choice.plan) == effect.instead;
            });
        ASSERT_NE(found, planned.feasible.plans.end());
        EXPECT_EQ(found->seconds, least);
      }
    }
  }
  EXPECT_GT(alone, 5);
  EXPECT_GT(freed, 2);
  EXPECT_GT(cheaper, 0) << "an option whose cost alone would be misleading";
}

// With scatter_gather=1, each plan with a tensor axis and no pipeline has nothing to scatter.
TEST(OptionEffects, AnOptionThatIsIdleInTheAlternativeNeverMatters) {
  const PlanOption& option = *FindPlanOption("scatter_gather");
  Planned planned(SmallGpt(4), Fp32(4, 64), 4, std::make_shared<const SecondsEach>(),
                  PlainWith("scatter_gather", {"0", "1"}));
  ParallelPlan best = *ParsePlanText("tp=2,pp=2,dp=1,mbs=1,scatter_gather=1");
  for (std::size_t i = 0; i < planned.feasible.plans.size(); ++i) {
    const ParallelPlan plan = planned.feasible.PlanAt(i);
    if (plan.tp == 2 && plan.pp == 2 && plan.scatter_gather) best = plan;
  }
  for (const OptionEffect& effect : EstimateEffects(planned.costs, planned.feasible, best, Uncorrected))
    EXPECT_NE(effect.option, &option) << PlanText(effect.instead);
}

TEST(WhatGrows, NamesThePartAndThePlacement) {
  ClusterSpec nodes = LocalRanks(8);
  nodes.local = false;
  nodes.groups.front().nodes = 4;
  const Workload workload = Fp32(64, 32);
  const auto said = [&](const char* best, const char* instead, double Breakdown::*part, double more = 1.5) {
    Breakdown a{.compute = 10}, b{.compute = 10};
    b.*part += more;
    return WhatGrows(nodes, workload, *ParsePlanText(best), a, *ParsePlanText(instead), b);
  };
  EXPECT_EQ(said("tp=8,dp=4", "tp=16,dp=2", &Breakdown::tp_comm),
            "tensor communication takes 1.5 s more; its group of 16 leaves the node");
  EXPECT_EQ(said("tp=2,dp=16", "tp=4,dp=8", &Breakdown::tp_comm),
            "tensor communication takes 1.5 s more; its group has 4 ranks in place of 2");
  EXPECT_EQ(said("tp=2,pp=8,dp=2", "tp=2,pp=2,dp=8", &Breakdown::dp_comm),
            "data communication takes 1.5 s more; its group of 8 leaves the node");
  EXPECT_EQ(said("dp=32", "dp=32,zero=3", &Breakdown::dp_comm),
            "data communication takes 1.5 s more; zero=3 sends more than zero=0");
  EXPECT_EQ(said("pp=2,dp=16", "pp=8,dp=4", &Breakdown::bubble),
            "the bubble takes 1.5 s more; 16 microbatches fill a pipeline of 8, in place of 4 one of 2");
  EXPECT_EQ(said("dp=32,zero=3,param_overlap=1", "dp=32,zero=3", &Breakdown::dp_comm),
            "data communication takes 1.5 s more; no computes hide its gathers");
  EXPECT_EQ(said("dp=32,grad_overlap=1", "dp=32", &Breakdown::dp_comm),
            "data communication takes 1.5 s more; no computes hide its reductions");
  EXPECT_EQ(said("tp=4,dp=8,tp_overlap=2", "tp=4,dp=8", &Breakdown::tp_comm),
            "tensor communication takes 1.5 s more; no products hide its sums");
  EXPECT_EQ(said("pp=4,dp=8,p2p_overlap=1", "pp=4,dp=8", &Breakdown::pp_comm),
            "pipeline communication takes 1.5 s more; no computes hide its messages");
  EXPECT_EQ(said("dp=32,mbs=2", "dp=32", &Breakdown::compute),
            "compute takes 1.5 s more; its ops are smaller and reach less of the device's peak");
  EXPECT_EQ(said("dp=32", "dp=32,recompute=full", &Breakdown::recompute), "recompute takes 1.5 s more");
  EXPECT_EQ(said("dp=32", "dp=32,recompute=full", &Breakdown::recompute, -1), "");
  nodes.groups.front().nodes = 1;
  nodes.groups.front().gpus_per_node = 6;
  EXPECT_EQ(said("tp=2,dp=3", "tp=4,dp=1", &Breakdown::tp_comm),
            "tensor communication takes 1.5 s more; its group has 4 ranks in place of 2")
      << "one node is left by no group";
}

}  // namespace
}  // namespace autocfg
