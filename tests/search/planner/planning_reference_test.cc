// Planning has the result of a reference without any shortcut: each legal plan by itself, with its memory and
// its time.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "search/cost/memory/memory_model.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/cost/split.h"
#include "search/plan/plan_text.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/lazy_times.h"
#include "search/planner/option_effects.h"
#include "search/planner/pareto_front.h"
#include "search/planner/shortlist.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::SmallGpt;

struct PlanningProblem {
  ModelSpec model;
  Workload workload;
  std::int64_t ranks = 0;
  AxisValues values;

  SearchSpace Space() const {
    auto space = SearchSpace::Create(model, workload, ranks, values,
                                     {.predict_only = true, .hides_collectives = true});
    EXPECT_TRUE(space.ok()) << space.status();
    return *std::move(space);
  }
  CostModel Costs() const {
    return CostModel({model, workload, LocalRanks(ranks)}, std::make_shared<const NominalTimes>());
  }
};

// The number of random problems of a test: `few`, or `all` where AUTOCFG_ALL_PROBLEMS is set, as
// planning_reference_slow_test does.
std::uint32_t Problems(std::uint32_t few, std::uint32_t all) {
  return std::getenv("AUTOCFG_ALL_PROBLEMS") == nullptr ? few : all;
}

// Makes each value of a derived option a plan of its own, unless some are named.
void NameDerived(AxisValues& values) {
  for (const AxisValues::value_type& every : test::EveryDerivedValue()) {
    const bool named = std::any_of(values.begin(), values.end(),
                                   [&](const auto& axis) { return axis.first == every.first; });
    if (!named) values.push_back(every);
  }
}

// A problem with a space of some thousand to some ten thousand plans.
PlanningProblem RandomPlanning(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random]<typename T>(const std::vector<T>& of) { return of[random() % of.size()]; };
  PlanningProblem p;
  p.ranks = pick(std::vector<std::int64_t>{4, 6, 8, 12, 16});
  p.model =
      SmallGpt(pick(std::vector<std::int64_t>{4, 6, 7, 12}), 96, pick(std::vector<std::int64_t>{4, 6, 12}));
  p.model.tied_embeddings = random() % 2 == 0;
  p.workload = Fp32(pick(std::vector<std::int64_t>{12, 16, 24}), 24);
  for (const AxisValues::value_type& axis : AxisValues{{"attention", {"fused", "unfused"}},
                                                       {"scatter_gather", {"0", "1"}},
                                                       {"zero", {"0", "1", "2", "3"}},
                                                       {"dp_shard", {"2"}},
                                                       {"split", {"auto"}},
                                                       {"split", {"even", "auto", "4+2", "3+4"}},
                                                       {"recompute", {"none", "selective", "full:2", "full"}},
                                                       {"p2p_overlap", {"0", "1"}},
                                                       {"tp", {"1", "2", "3"}}}) {
    if (random() % 3 != 0) continue;
    const bool named = std::any_of(p.values.begin(), p.values.end(),
                                   [&](const auto& other) { return other.first == axis.first; });
    if (!named) p.values.push_back(axis);
  }
  NameDerived(p.values);  // DerivedOptions: not named
  return p;
}

// What planning finds, by the text of a plan.
struct PlanningAnswer {
  std::map<std::string, std::int64_t> arena_kib;  // of the plans that fit
  std::int64_t enumerated = 0, out_of_memory = 0;
  std::array<std::int64_t, kIllegalReasonCount> illegal{};
  std::int64_t smallest_bytes = 0;

  bool operator==(const PlanningAnswer&) const = default;
};

PlanningAnswer AnswerOf(const FeasiblePlans& found) {
  PlanningAnswer answer{.arena_kib = {},
                        .enumerated = found.enumerated,
                        .out_of_memory = found.out_of_memory,
                        .illegal = found.illegal,
                        .smallest_bytes = found.smallest_bytes};
  for (std::size_t i = 0; i < found.plans.size(); ++i)
    answer.arena_kib[PlanText(found.PlanAt(i))] = found.plans[i].choice.arena_kib;
  return answer;
}

// Judges each plan of the space by the law of plans alone, one by one, and each legal one by its memory.
PlanningAnswer ReferenceAnswer(const PlanningProblem& problem, std::int64_t arena_bytes,
                               std::vector<std::int64_t>* arenas) {
  PlanningAnswer answer;
  CostModel costs = problem.Costs();
  std::map<std::string, bool> seen;
  problem.Space().ForEachLegal(
      [&](const ParallelPlan& plan) {
        EXPECT_FALSE(FindIllegality({problem.model, problem.workload, plan}, problem.ranks))
            << PlanText(plan);
        const ParallelPlan resolved = ResolveSplit(costs, plan);
        if (!seen.emplace(PlanText(resolved), true).second) return true;  // by split=auto again
        ++answer.enumerated;
        const std::int64_t bytes = WorstRankMemory({problem.model, problem.workload, resolved}).Arena();
        std::int64_t most = 0;
        for (std::int64_t rank = 0; rank < plan.pp; ++rank)
          most = std::max(most, RankMemory({problem.model, problem.workload, resolved}, rank).Arena());
        EXPECT_EQ(bytes, most) << PlanText(resolved);
        arenas->push_back(bytes);
        if (bytes > arena_bytes) {
          ++answer.out_of_memory;
        } else {
          answer.arena_kib[PlanText(resolved)] = (bytes + 1023) / 1024;
        }
        return true;
      },
      {},
      [&](const ParallelPlan&, IllegalReason reason) {
        ++answer.enumerated;
        ++answer.illegal[static_cast<std::size_t>(reason)];
        return true;
      });
  answer.smallest_bytes = arenas->empty() ? 0 : *std::min_element(arenas->begin(), arenas->end());
  return answer;
}

TEST(Planning, AnswersAsAReferenceWithoutShortcuts) {
  std::int64_t fit = 0, too_large = 0;
  const std::uint32_t problems = Problems(5, 16);
  for (std::uint32_t seed = 1; seed <= problems; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = RandomPlanning(seed);
    std::vector<std::int64_t> arenas;
    ReferenceAnswer(problem, 0, &arenas);
    ASSERT_FALSE(arenas.empty());
    std::nth_element(arenas.begin(), arenas.begin() + static_cast<std::ptrdiff_t>(arenas.size() / 2),
                     arenas.end());
    const std::int64_t capacity = arenas[arenas.size() / 2];
    arenas.clear();
    const PlanningAnswer expected = ReferenceAnswer(problem, capacity, &arenas);
    CostModel costs = problem.Costs();
    FeasiblePlans found = *FindFeasiblePlans(problem.Space(), costs, capacity);
    EXPECT_EQ(AnswerOf(found), expected);
    fit += static_cast<std::int64_t>(expected.arena_kib.size());
    too_large += expected.out_of_memory;

    // The times, each by a cost model that has seen no other plan.
    const auto timed = PredictTimes(costs, found);
    ASSERT_TRUE(timed.ok()) << timed.status();
    for (std::size_t i = 0; i < found.plans.size(); i += 1 + found.plans.size() / 300) {
      const ParallelPlan plan = found.PlanAt(i);
      CostModel fresh = problem.Costs();
      if (const auto exact = timed->find(i); exact != timed->end()) {
        EXPECT_NEAR(fresh.Predict(plan).step_time_s, exact->second.step_time_s,
                    1e-12 * exact->second.step_time_s)
            << PlanText(plan);
      }
      const double alone_s = fresh.Estimate(plan).step_time_s;
      EXPECT_NEAR(alone_s, costs.Estimate(plan).step_time_s, 1e-12 * alone_s) << PlanText(plan);
    }
  }
  EXPECT_GT(fit, 625 * problems);
  EXPECT_GT(too_large, 625 * problems);
}

// The front of time against memory, of all plans that are timed.
std::vector<std::size_t> FrontOf(const FeasiblePlans& found) {
  ParetoFront front;
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    if (found.plans[i].timed) front.Offer({found.plans[i].seconds, found.plans[i].choice.arena_kib, i});
  }
  std::vector<std::size_t> plans;
  for (const ParetoFront::Point& point : front.Points(found.plans.size())) plans.push_back(point.index);
  return plans;
}

std::size_t TimedCount(const FeasiblePlans& found) {
  return static_cast<std::size_t>(
      std::count_if(found.plans.begin(), found.plans.end(), [](const auto& plan) { return plan.timed; }));
}

// Leaving out times changes no answer: each is the one that the times of all plans give, to the bit.
TEST(Planning, AnswersAreThoseOfTheTimesOfAllPlans) {
  std::size_t plans = 0, timed_plans = 0;
  int effects = 0;
  for (std::uint32_t seed = 1; seed <= Problems(8, 24); ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = RandomPlanning(seed);
    const bool hides = seed % 2 == 0;
    const auto costs_of = [&] {
      ClusterSpec cluster = LocalRanks(problem.ranks);
      if (hides) cluster.groups.front().device.kind = DeviceKind::kCuda;
      return CostModel({problem.model, problem.workload, cluster}, std::make_shared<const NominalTimes>());
    };
    CostModel costs = costs_of();
    const std::int64_t capacity =
        FindFeasiblePlans(problem.Space(), costs, std::int64_t{1} << 50)->smallest_bytes * (1 + seed % 4);
    const auto find = [&](CostModel& by) { return *FindFeasiblePlans(problem.Space(), by, capacity); };
    FeasiblePlans all = find(costs);
    ASSERT_TRUE(PredictTimes(costs, all).ok());
    ASSERT_EQ(TimedCount(all), all.plans.size());
    std::vector<TimedPlan> order;
    for (std::size_t i = 0; i < all.plans.size(); ++i) order.push_back({all.plans[i].seconds, i});
    std::sort(order.begin(), order.end(), [](const TimedPlan& a, const TimedPlan& b) {
      return std::pair(a.seconds, a.index) < std::pair(b.seconds, b.index);
    });
    const ParallelPlan best = all.PlanAt(order.front().index);
    const auto correction = [](const ParallelPlan&) { return 1.0; };
    const std::vector<OptionEffect> expected_effects = EstimateEffects(costs, all, best, correction);
    const std::vector<std::size_t> expected_front = FrontOf(all);

    // Each answer from bounds alone, then the others with the times that are known by then.
    for (const int first : {0, 1, 2}) {
      CostModel own = costs_of();
      FeasiblePlans some = find(own);
      LazyTimes times;
      ASSERT_TRUE(PredictTimes(own, some, {}, &times).ok());
      for (std::size_t i = 0; i < some.plans.size(); ++i) {
        if (some.plans[i].timed) continue;
        ASSERT_LT(some.plans[i].seconds, all.plans[i].seconds) << PlanText(some.PlanAt(i));
        ASSERT_GT(some.plans[i].seconds, 0);
      }
      for (const int answer : {first, (first + 1) % 3, (first + 2) % 3}) {
        if (answer == 0) {
          ASSERT_TRUE(times.TimeFront(own, some, problem.Space()).ok());
          EXPECT_EQ(FrontOf(some), expected_front);
        } else if (answer == 1) {
          const auto found = EstimateEffects(own, some, best, correction, times);
          ASSERT_EQ(found.size(), expected_effects.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(found[i].option, expected_effects[i].option);
            EXPECT_EQ(found[i].instead, expected_effects[i].instead) << found[i].option->name;
            EXPECT_EQ(found[i].costs, expected_effects[i].costs) << found[i].option->name;
            effects += found[i].only_this_changed ? 0 : 1;
          }
        } else {
          for (const std::size_t limit :
               {std::size_t{1}, std::size_t{2}, std::size_t{11}, order.size() / 3}) {
            const std::vector<TimedPlan> fastest = times.Fastest(own, some, limit);
            ASSERT_GE(fastest.size(), std::min(limit, order.size()));
            for (std::size_t n = 0; n < fastest.size(); ++n) {
              ASSERT_EQ(fastest[n].index, order[n].index) << n << " of " << limit;
              ASSERT_EQ(fastest[n].seconds, order[n].seconds);
            }
            if (limit > 0 && limit < order.size() && fastest.size() < order.size()) {
              EXPECT_GT(order[fastest.size()].seconds, order[limit - 1].seconds * (1 + 1e-9));
            }
            if (limit == 11 && first == 2) {
              plans += some.plans.size();
              timed_plans += TimedCount(some);
            }
          }
        }
      }
      for (std::size_t i = 0; i < some.plans.size(); ++i)
        ASSERT_EQ(times.Time(own, some, i), all.plans[i].seconds) << PlanText(some.PlanAt(i));
    }
  }
  EXPECT_GT(effects, 5);
  EXPECT_LT(10 * timed_plans, 3 * plans) << "few times are needed";
}

// The plan without its derived options, but for those that `named` names.
ParallelPlan WithoutDerived(ParallelPlan plan, const AxisValues& named) {
  for (const PlanOption& option : PlanOptions()) {
    const bool is_named =
        std::any_of(named.begin(), named.end(), [&](const auto& axis) { return axis.first == option.name; });
    if (option.derived && !is_named) option.copy(ParallelPlan(), plan);
  }
  return plan;
}

// No values of the derived options are better than those that planning takes, and the front of time against
// memory is that of all values.
void CompareWithAllValues(bool depth_alone) {
  int recomputed = 0, parts = 0, of_front = 0;
  std::map<std::string, int> differs;  // by derived option: from its default
  const auto problems = static_cast<int>(Problems(12, 40));
  for (std::uint32_t seed = 1; seed <= static_cast<std::uint32_t>(problems); ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem named = RandomPlanning(seed);
    PlanningProblem problem = named;
    std::mt19937 random(seed);
    std::erase_if(problem.values, [&](const auto& axis) {
      return axis.first == "recompute" ||
             (!depth_alone && FindPlanOption(axis.first)->derived && random() % 4 != 0);
    });
    PlanningProblem every = problem;
    NameDerived(every.values);
    ClusterSpec cluster = LocalRanks(problem.ranks);
    if (seed % 2 == 0) cluster.groups.front().device.kind = DeviceKind::kCuda;
    CostModel costs({problem.model, problem.workload, cluster}, std::make_shared<const NominalTimes>());
    const std::int64_t least_bytes =
        FindFeasiblePlans(every.Space(), costs, std::int64_t{1} << 50)->smallest_bytes;
    const std::int64_t capacity = least_bytes + least_bytes * (seed % 5) / 2;
    FeasiblePlans all = *FindFeasiblePlans(every.Space(), costs, capacity);
    FeasiblePlans derived = *FindFeasiblePlans(problem.Space(), costs, capacity);
    EXPECT_LE(derived.plans.size(), all.plans.size());
    EXPECT_EQ(derived.smallest_bytes, all.smallest_bytes);
    ASSERT_TRUE(PredictTimes(costs, all).ok());
    LazyTimes times;
    ASSERT_TRUE(PredictTimes(costs, derived, {}, seed % 3 == 0 ? nullptr : &times).ok());

    // The balanced split follows the depth.
    const auto without_derived = [&](ParallelPlan plan) {
      if (depth_alone) FindPlanOption("split")->copy(ParallelPlan(), plan);
      return WithoutDerived(plan, problem.values);
    };
    std::map<ParallelPlan, double> fastest;
    std::set<ParallelPlan> known;
    for (std::size_t i = 0; i < derived.plans.size(); ++i) {
      times.Time(costs, derived, i);
      const ParallelPlan plan = derived.PlanAt(i);
      EXPECT_TRUE(known.insert(plan).second) << PlanText(plan);
      const double seconds = costs.Estimate(plan).step_time_s;
      const auto [best, made] = fastest.try_emplace(without_derived(plan), seconds);
      EXPECT_TRUE(made || depth_alone) << PlanText(plan);
      best->second = std::min(best->second, seconds);
      recomputed += plan.recompute == Recompute::kFull;
      parts += plan.recompute == Recompute::kSelective;
      for (const PlanOption& option : PlanOptions())
        if (option.derived && !option.equal(plan, ParallelPlan())) ++differs[std::string(option.name)];
    }
    for (std::size_t i = 0; i < all.plans.size(); ++i) {
      const ParallelPlan plan = all.PlanAt(i);
      known.erase(plan);
      const auto best = fastest.find(without_derived(plan));
      ASSERT_NE(best, fastest.end()) << PlanText(plan);
      // Parts that take little time move the balance of split=auto, which is not exactly the fastest split.
      const bool moves = plan.recompute == Recompute::kSelective && plan.split == SplitMode::kExplicit;
      EXPECT_LE(best->second, costs.Estimate(plan).step_time_s * (moves ? 1.005 : 1 + 1e-9))
          << PlanText(plan);
    }
    EXPECT_TRUE(known.empty()) << PlanText(*known.begin());

    ASSERT_TRUE(times.TimeFront(costs, derived, problem.Space()).ok());
    // Only the fastest choice of a plan is timed; the others keep their ratios to it.
    const double timed = 1.01;
    ParetoFront expected, found;
    for (std::size_t i = 0; i < all.plans.size(); ++i)
      expected.Offer({all.plans[i].seconds, all.plans[i].choice.arena_kib, i});
    for (const FeasiblePlan& plan : derived.plans)
      if (plan.timed) found.Offer({plan.seconds, plan.choice.arena_kib, 0});
    for (const FeasiblePlan& plan : derived.slower) found.Offer({plan.seconds, plan.choice.arena_kib, 1});
    for (const ParetoFront::Point& point : expected.Points(all.plans.size()))
      EXPECT_TRUE(found.Beats(point.seconds * timed, point.memory))
          << point.seconds << " s, " << point.memory << " KiB: " << PlanText(all.PlanAt(point.index));
    for (const ParetoFront::Point& point : found.Points(all.plans.size())) {
      EXPECT_TRUE(expected.Beats(point.seconds * timed, point.memory));
      of_front += static_cast<int>(point.index);
    }
  }
  EXPECT_GT(recomputed, 5 * problems);
  EXPECT_GT(parts, 5 * problems);
  EXPECT_GT(4 * of_front, 5 * problems);
  if (depth_alone) return;
  EXPECT_EQ(differs.size(), 4u);
  for (const auto& [option, count] : differs) EXPECT_GT(4 * count, 5 * problems) << option;
}

TEST(DerivedOptions, AreAsGoodAsAllValues) { CompareWithAllValues(/*depth_alone=*/false); }
TEST(DerivedOptions, TheDepthAloneIsAsGoodAsAllDepths) { CompareWithAllValues(/*depth_alone=*/true); }

// The counts add up where the budget ends, too.
TEST(Planning, CountsAddUpWhereTheBudgetEnds) {
  const PlanningProblem problem = RandomPlanning(3);
  CostModel costs = problem.Costs();
  const FeasiblePlans found =
      *FindFeasiblePlans(problem.Space(), costs, std::int64_t{1} << 50, {.plans = 777});
  ASSERT_TRUE(found.cut_off_at);
  std::int64_t illegal = 0;
  for (const std::int64_t count : found.illegal) illegal += count;
  EXPECT_EQ(found.enumerated, illegal + found.out_of_memory + static_cast<std::int64_t>(found.plans.size()));
}

TEST(Planning, AsksTheWatchAndStops) {
  const PlanningProblem problem = RandomPlanning(2);
  const SearchSpace space = problem.Space();
  CostModel costs = problem.Costs();
  int looks = 0;
  const auto until = [&](int most) {
    return [&looks, most](const PlanningProgress&) { return ++looks < most; };
  };
  EXPECT_TRUE(
      absl::IsCancelled(FindFeasiblePlans(space, costs, std::int64_t{1} << 50, {}, until(1)).status()));
  EXPECT_EQ(looks, 1);
  FeasiblePlans all = *FindFeasiblePlans(space, costs, std::int64_t{1} << 50, {}, until(1 << 30));
  EXPECT_GE(looks, 2);
  looks = 0;
  EXPECT_TRUE(absl::IsCancelled(PredictTimes(costs, all, until(1)).status()));
  EXPECT_EQ(looks, 1);

  LazyTimes times;
  looks = 0;
  EXPECT_TRUE(absl::IsCancelled(PredictTimes(costs, all, until(1), &times).status()));
  EXPECT_EQ(looks, 1);
  ASSERT_TRUE(PredictTimes(costs, all, {}, &times).ok());
  looks = 0;
  EXPECT_TRUE(absl::IsCancelled(times.TimeFront(costs, all, space, until(2))));
  EXPECT_EQ(looks, 2);
}

}  // namespace
}  // namespace autocfg
