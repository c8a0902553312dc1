#include "search/planner/feasible_plans.h"

#include <algorithm>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "search/cost/memory/memory_model.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/cost/split.h"
#include "search/plan/plan_text.h"
#include "search/planner/shortlist.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::SmallGpt;

constexpr std::int64_t kAnyMemory = std::int64_t{1} << 50;

struct SmallProblem : Problem {
  SmallProblem() : Problem{SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)} {}

  // With every value of the options that are else derived as a plan of its own, unless `values` say more.
  SearchSpace Space(AxisValues values = {}) const {
    for (const AxisValues::value_type& every : AxisValues{{"recompute", {"none", "full:*"}},
                                                          {"split", {"even", "auto"}},
                                                          {"p2p_overlap", {"0", "1"}},
                                                          {"scatter_gather", {"0", "1"}}}) {
      const bool named = std::any_of(values.begin(), values.end(),
                                     [&](const auto& axis) { return axis.first == every.first; });
      if (!named) values.push_back(every);
    }
    auto space = SearchSpace::Create(model, workload, 8, values, {.predict_only = true});
    EXPECT_TRUE(space.ok()) << space.status();
    return *std::move(space);
  }
  CostModel Costs() const { return CostModel(*this, std::make_shared<const NominalTimes>()); }
};

std::int64_t IllegalCount(const FeasiblePlans& plans) {
  std::int64_t sum = 0;
  for (const std::int64_t count : plans.illegal) sum += count;
  return sum;
}

// Compares with a plan-by-plan enumeration of the space, using sets.
TEST(FeasiblePlans, ContainEachFittingPlanOnce) {
  const SmallProblem problem;
  for (const AxisValues& values :
       {AxisValues{}, AxisValues{{"split", {"auto"}}}, AxisValues{{"split", {"even"}}},
        AxisValues{{"split", {"auto", "even", "4+3+3+2", "7+5", "6+6"}}},
        AxisValues{{"scatter_gather", {"0", "1"}}}, AxisValues{{"scatter_gather", {"1"}}},
        AxisValues{{"split", {"auto"}},
                   {"zero", {"0", "1"}},
                   {"tp_overlap", {"1", "2"}},
                   {"grad_overlap", {"0", "1"}},
                   {"param_overlap", {"0", "1"}}}}) {
    const SearchSpace space = problem.Space(values);
    CostModel costs = problem.Costs();
    std::set<ParallelPlan> all;
    std::vector<std::int64_t> bytes;
    const auto counts = space.ForEachLegal([&](const ParallelPlan& plan) {
      if (all.insert(ResolveSplit(costs, plan)).second) {
        bytes.push_back(
            WorstRankMemory({problem.model, problem.workload, ResolveSplit(costs, plan)}).Arena());
      }
      return true;
    });
    const auto legal = static_cast<std::int64_t>(all.size());
    std::sort(bytes.begin(), bytes.end());
    for (const std::int64_t capacity :
         {kAnyMemory, bytes[bytes.size() / 2], bytes.front(), bytes.front() - 1}) {
      const FeasiblePlans found = *FindFeasiblePlans(space, costs, capacity);
      std::set<ParallelPlan> plans;
      for (std::size_t i = 0; i < found.plans.size(); ++i) {
        const ParallelPlan plan = found.PlanAt(i);
        EXPECT_TRUE(plans.insert(plan).second) << "twice: " << PlanText(plan);
        EXPECT_TRUE(all.contains(plan));
        EXPECT_LE(WorstRankMemory({problem.model, problem.workload, plan}).Arena(), capacity);
      }
      EXPECT_EQ(static_cast<std::int64_t>(plans.size()),
                std::upper_bound(bytes.begin(), bytes.end(), capacity) - bytes.begin());
      EXPECT_EQ(found.enumerated, legal + IllegalCount(found));
      EXPECT_EQ(found.enumerated,
                found.out_of_memory + IllegalCount(found) + static_cast<std::int64_t>(plans.size()));
      EXPECT_LE(found.enumerated, counts.enumerated);
      EXPECT_EQ(found.illegal, counts.illegal);
      EXPECT_EQ(found.smallest_bytes, bytes.front());
      EXPECT_EQ(WorstRankMemory({problem.model, problem.workload, *found.smallest}).Arena(), bytes.front());
    }
  }
}

double Recomputed(const ParallelPlan& plan) {
  if (plan.recompute == Recompute::kNone) return 0;
  return plan.recompute_layers == 0 ? 1e9 : static_cast<double>(plan.recompute_layers);
}

// Removes recompute, zero above 1, and the layers of the stages, which may differ if both splits come from
// split=auto.
ParallelPlan Family(ParallelPlan plan) {
  plan.recompute = Recompute::kNone;
  plan.recompute_layers = 0;
  plan.split = SplitMode::kEven;
  plan.split_layers.clear();
  plan.zero_stage = std::min<std::int64_t>(plan.zero_stage, 1);
  return plan;
}

// Where all fits, these are linked to none.
bool DoesLeastWork(const ParallelPlan& plan) {
  return plan.recompute == Recompute::kNone && plan.zero_stage <= 1;
}

TEST(FeasiblePlans, LinkToPlansThatRecomputeLess) {
  const SmallProblem problem;
  const SearchSpace space = problem.Space();
  CostModel costs = problem.Costs();
  FeasiblePlans roomy = *FindFeasiblePlans(space, costs, kAnyMemory);
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < roomy.plans.size(); ++i) {
    bytes.push_back(WorstRankMemory({problem.model, problem.workload, roomy.PlanAt(i)}).Arena());
    EXPECT_EQ(roomy.plans[i].less_work == kNoPlan, DoesLeastWork(roomy.PlanAt(i)))
        << PlanText(roomy.PlanAt(i));
  }
  std::nth_element(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 3), bytes.end());
  FeasiblePlans tight = *FindFeasiblePlans(space, costs, bytes[bytes.size() / 3]);
  int forced = 0;
  for (FeasiblePlans* plans : {&roomy, &tight}) {
    ASSERT_TRUE(PredictTimes(costs, *plans).ok());
    for (std::size_t i = 0; i < plans->plans.size(); ++i) {
      const std::int32_t less = plans->plans[i].less_work;
      const ParallelPlan plan = plans->PlanAt(i);
      if (less == kNoPlan) {
        forced += plan.recompute == Recompute::kFull;
        continue;
      }
      ASSERT_LT(less, static_cast<std::int32_t>(i));
      const ParallelPlan other = plans->PlanAt(static_cast<std::size_t>(less));
      EXPECT_EQ(Family(other), Family(plan));
      if (other.zero_stage == plan.zero_stage) {
        EXPECT_LT(Recomputed(other), Recomputed(plan)) << PlanText(other) << " and " << PlanText(plan);
      } else {
        EXPECT_EQ(Recomputed(other), Recomputed(plan)) << PlanText(other) << " and " << PlanText(plan);
        EXPECT_LT(other.zero_stage, plan.zero_stage);
      }
      EXPECT_LE(plans->plans[static_cast<std::size_t>(less)].seconds, plans->plans[i].seconds * (1 + 1e-6))
          << PlanText(other) << " and " << PlanText(plan);
    }
  }
  EXPECT_GT(forced, 10) << "plans that must recompute to fit";
}

// All variants that can be predicted, and an option that is searched as if it were. Plans are linked only to
// plans that are the same in every option but the one of the link.
TEST(FeasiblePlans, LinkToPlansThatAreElseTheSame) {
  const SmallProblem problem;
  std::vector<PlanOption> table(PlanOptions().begin(), PlanOptions().end());
  AxisValues values = {{"mbs", {"1"}}, {"split", {"even", "auto"}}, {"recompute", {"none", "full:*"}}};
  for (PlanOption& option : table) {
    if (option.name == "tp_overlap") option.predicted = option.choices.first(2);
    const bool variant =
        option.form == OptionForm::kFlag || option.form == OptionForm::kNumber || option.name == "attention";
    if (!variant) continue;
    const auto predicted = option.predicted.empty() ? option.choices : option.predicted;
    values.emplace_back(option.name, std::vector<std::string>(predicted.begin(), predicted.end()));
  }
  const auto space =
      SearchSpace::Create(problem.model, problem.workload, 8, values, {.predict_only = true, .table = table});
  ASSERT_TRUE(space.ok()) << space.status();
  CostModel costs = problem.Costs();
  const FeasiblePlans found = *FindFeasiblePlans(*space, costs, kAnyMemory);
  std::set<std::int64_t> chunks;
  int less = 0;
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    const ParallelPlan plan = found.PlanAt(i);
    chunks.insert(plan.tp_overlap);
    if (const std::int32_t other = found.plans[i].less_work; other != kNoPlan) {
      EXPECT_EQ(Family(found.PlanAt(static_cast<std::size_t>(other))), Family(plan)) << PlanText(plan);
      ++less;
    } else {
      EXPECT_TRUE(DoesLeastWork(plan)) << PlanText(plan);
    }
  }
  EXPECT_EQ(chunks, (std::set<std::int64_t>{1, 2}));
  EXPECT_GT(less, 100);
}

TEST(Shortlist, TimesTheFastest) {
  const SmallProblem problem;
  const SearchSpace space = problem.Space();
  CostModel costs = problem.Costs();
  FeasiblePlans plans = *FindFeasiblePlans(space, costs, kAnyMemory);
  const auto timed = PredictTimes(costs, plans);
  ASSERT_TRUE(timed.ok()) << timed.status();
  EXPECT_GE(timed->size(), 64u);
  EXPECT_LE(timed->size(), 256u);
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < plans.plans.size(); ++i) {
    if (plans.plans[i].less_work == kNoPlan) order.emplace_back(plans.plans[i].seconds, i);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t n = 0; n < 16; ++n) EXPECT_TRUE(timed->contains(order[n].second)) << n;
  for (std::size_t i = 0; i < plans.plans.size(); ++i) {
    const Prediction p = PredictionOf(costs, plans, *timed, i);
    EXPECT_NEAR(p.step_time_s, plans.plans[i].seconds, 1e-12);
    EXPECT_NEAR(p.breakdown.Total(), p.step_time_s, 1e-9 * p.step_time_s);
    if (timed->contains(i)) {
      EXPECT_NEAR(p.step_time_s, costs.Predict(plans.PlanAt(i)).step_time_s, 1e-12);
    }
  }
}

TEST(Shortlist, MissingTimeIsAnError) {
  const SmallProblem problem;
  CostModel costs(problem, OpTimes());
  FeasiblePlans plans = *FindFeasiblePlans(problem.Space(), costs, kAnyMemory);
  EXPECT_EQ(PredictTimes(costs, plans).status().code(), absl::StatusCode::kInvalidArgument);
}

// Messages in parts take an unknown time.
class UnknownParts final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override {
    return op.kind == OpKind::kSend && plan.scatter_gather ? std::numeric_limits<double>::infinity()
                                                           : NominalTimes().Seconds(op);
  }
};

// A choice of a derived option without a time is no slower one.
TEST(Shortlist, MissingTimeOfAChoiceIsAnError) {
  const SmallProblem problem;
  const auto space = SearchSpace::Create(problem.model, problem.workload, 8, {{"sp", {"0"}}, {"zero", {"0"}}},
                                         {.predict_only = true});
  ASSERT_TRUE(space.ok()) << space.status();
  CostModel costs(problem, std::make_shared<const UnknownParts>());
  FeasiblePlans plans = *FindFeasiblePlans(*space, costs, kAnyMemory);
  EXPECT_EQ(PredictTimes(costs, plans).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FeasiblePlans, EndWithTheBudget) {
  const SmallProblem problem;
  const SearchSpace space = problem.Space();
  CostModel costs = problem.Costs();
  const FeasiblePlans all = *FindFeasiblePlans(space, costs, kAnyMemory);
  EXPECT_FALSE(all.cut_off_at);
  ASSERT_GT(all.plans.size(), 500u);
  const FeasiblePlans few = *FindFeasiblePlans(space, costs, kAnyMemory, {.plans = 100});
  EXPECT_LE(few.plans.size(), 100u);
  ASSERT_TRUE(few.cut_off_at);
  EXPECT_EQ(few.cut_off_at->tp, 1);
  EXPECT_LT(few.enumerated, all.enumerated);
  for (std::size_t i = 0; i < few.plans.size(); ++i) EXPECT_EQ(few.PlanAt(i), all.PlanAt(i));
  const FeasiblePlans small = *FindFeasiblePlans(space, costs, kAnyMemory, {.bytes = all.Bytes() / 2});
  EXPECT_TRUE(small.cut_off_at);
  // The plan that exceeds the budget is the last; the list of plans doubles when it grows.
  const std::size_t growth = small.plans.capacity() * sizeof(FeasiblePlan) / 2;
  EXPECT_LT(small.Bytes(), all.Bytes() / 2 + growth + 4096);
  EXPECT_FALSE(FindFeasiblePlans(space, costs, kAnyMemory, {.bytes = all.Bytes() + 1})->cut_off_at);
}

// The work on a plan grows with its stages, so plans of many stages are few between two looks at the watch.
TEST(FeasiblePlans, LookAtTheWatchAsOftenWithManyStages) {
  SmallProblem problem;
  problem.model = SmallGpt(100'000, 16, 2);
  problem.workload = Fp32(1'000'000, 8);
  const auto space = SearchSpace::Create(problem.model, problem.workload, 50'000,
                                         {{"pp", {"50000", "25000"}}, {"mbs", {"1"}}, {"split", {"auto"}}},
                                         {.predict_only = true});
  ASSERT_TRUE(space.ok()) << space.status();
  CostModel costs = problem.Costs();
  std::int64_t last = 0, most = 0;
  const auto watch = [&](const PlanningProgress& progress) {
    most = std::max(most, progress.fit - last);
    last = progress.fit;
    return true;
  };
  FeasiblePlans found = *FindFeasiblePlans(*space, costs, kAnyMemory, {}, watch);
  most = std::max(most, static_cast<std::int64_t>(found.plans.size()) - last);
  EXPECT_GT(found.plans.size(), 12u);
  EXPECT_LE(most, 11) << found.plans.size();
}

TEST(FeasiblePlans, EndWhenTheWatchSaysNo) {
  const SmallProblem problem;
  const SearchSpace space = problem.Space();
  CostModel costs = problem.Costs();
  std::int64_t most_fit = 0;
  const auto until = [&](std::int64_t enumerated) {
    return [&most_fit, enumerated](const PlanningProgress& progress) {
      most_fit = std::max(most_fit, progress.fit);
      return progress.enumerated < enumerated;
    };
  };
  const auto stopped = FindFeasiblePlans(space, costs, kAnyMemory, {}, until(400));
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_GT(most_fit, 0) << "it says how far it came";
  FeasiblePlans all = *FindFeasiblePlans(space, costs, kAnyMemory, {}, until(1'000'000));
  EXPECT_TRUE(absl::IsCancelled(PredictTimes(costs, all, until(0)).status()));
  EXPECT_TRUE(PredictTimes(costs, all, until(1'000'000)).ok());
}

}  // namespace
}  // namespace autocfg
