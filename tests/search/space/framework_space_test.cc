// A space for a training framework holds the plans that the framework expresses, and counts the others.
#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_rules.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/megatron_bridge/megatron_bridge.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_text.h"
#include "search/space/search_space.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

constexpr std::array kFrameworks = {kMegatron, kMegatronBridge, kNemo, kDeepSpeed, kTorchtitan};
constexpr std::int64_t kRanks = 8;

ModelSpec SmallModel() {
  ModelSpec model{.layers = 4, .hidden = 128, .heads = 4, .vocab = 1000};
  FillDefaults(model);
  return model;
}

Workload SmallWorkload(std::string_view precision) {
  return {.global_batch = 8, .seq_len = 64, .precision = *ParsePrecision(precision)};
}

SearchSpace SpaceFor(std::string_view framework, std::string_view precision, const AxisValues& values) {
  auto space = SearchSpace::Create(
      SmallModel(), SmallWorkload(precision), kRanks, values,
      {.predict_only = true, .hides_collectives = true, .framework = FrameworkRules(framework)});
  EXPECT_TRUE(space.ok()) << space.status();
  return *std::move(space);
}

std::vector<ParallelPlan> PlansIn(const SearchSpace& space, SearchSpace::Counts* counts = nullptr,
                                  const SearchSpace::VisitIllegal& visit_illegal = {}) {
  std::vector<ParallelPlan> plans;
  const SearchSpace::Counts found = space.ForEachLegal(
      [&plans](const ParallelPlan& plan) {
        plans.push_back(plan);
        return true;
      },
      {}, visit_illegal);
  if (counts != nullptr) *counts = found;
  return plans;
}

std::int64_t InexpressibleIn(const SearchSpace::Counts& counts) {
  return counts.illegal[static_cast<std::size_t>(IllegalReason::kNotExpressible)];
}

// Values that leave out nothing as covered.
const AxisValues kAllOverlaps = {{"grad_overlap", {"0", "1"}}, {"param_overlap", {"0", "1"}}};

TEST(FrameworkSpace, HoldsThePlansThatTheRulesLeave) {
  for (const std::string_view precision : {"bf16", "fp32"}) {
    for (const bool sharded : {false, true}) {
      AxisValues values = kAllOverlaps;
      values.push_back({"attention", {"fused", "unfused"}});
      values.push_back({"split", {"even", "auto", "1+3"}});
      values.push_back({"recompute", {"none", "selective", "selective:mlp", "selective:norm", "full:*"}});
      values.push_back({"p2p_overlap", {"0", "1"}});
      values.push_back({"scatter_gather", {"0", "1"}});
      if (sharded) values.push_back({"dp_shard", {"2", "4", "8"}});
      const std::vector<ParallelPlan> all = PlansIn(SpaceFor("autocfg", precision, values));
      for (const std::string_view framework : kFrameworks) {
        SCOPED_TRACE(std::string(framework) + ' ' + std::string(precision));
        const ModelSpec model = SmallModel();
        const Workload workload = SmallWorkload(precision);
        std::vector<ParallelPlan> expected;
        for (const ParallelPlan& plan : all) {
          if (WhyNotExpressible(FrameworkRules(framework), {{model, workload, plan}, kRanks}).empty())
            expected.push_back(plan);
        }
        ASSERT_FALSE(expected.empty());
        ASSERT_LT(expected.size(), all.size());
        SearchSpace::Counts counts;
        EXPECT_EQ(PlansIn(SpaceFor(framework, precision, values), &counts), expected);
        // A plan that breaks a rule of the framework and a late one of legality counts as the former.
        EXPECT_GE(InexpressibleIn(counts), static_cast<std::int64_t>(all.size() - expected.size()));
      }
    }
  }
}

TEST(FrameworkSpace, CountsAtOnceWhatItVisitsIfAsked) {
  for (const std::string_view framework : kFrameworks) {
    SCOPED_TRACE(std::string(framework));
    const SearchSpace space = SpaceFor(framework, "bf16", {});
    SearchSpace::Counts at_once, visited;
    const std::vector<ParallelPlan> plans = PlansIn(space, &at_once);
    std::set<ParallelPlan> seen;
    std::int64_t inexpressible = 0;
    const ModelSpec model = SmallModel();
    const Workload workload = SmallWorkload("bf16");
    const auto visit = [&](const ParallelPlan& plan, IllegalReason reason) {
      EXPECT_TRUE(seen.insert(plan).second) << "twice: " << PlanText(plan);
      if (reason == IllegalReason::kNotExpressible) {
        ++inexpressible;
        EXPECT_NE(WhyNotExpressible(FrameworkRules(framework), {{model, workload, plan}, kRanks}), "")
            << PlanText(plan);
      }
      return true;
    };
    EXPECT_EQ(PlansIn(space, &visited, visit), plans);
    EXPECT_EQ(visited.illegal, at_once.illegal);
    EXPECT_EQ(visited.enumerated, at_once.enumerated);
    EXPECT_EQ(inexpressible, InexpressibleIn(at_once));
    EXPECT_GT(inexpressible, 0);
    const auto illegal = static_cast<std::int64_t>(seen.size());
    EXPECT_EQ(at_once.enumerated, illegal + static_cast<std::int64_t>(plans.size()));
  }
}

// DeepSpeed has no overlap of gradients that each rank keeps, which covers plans without it elsewhere.
TEST(FrameworkSpace, KeepsValuesThatOnlyInexpressibleOnesCover) {
  const auto has = [](const std::vector<ParallelPlan>& plans, bool grad_overlap) {
    return std::any_of(plans.begin(), plans.end(), [&](const ParallelPlan& plan) {
      return plan.zero_stage == 1 && plan.dp > 1 && plan.grad_overlap == grad_overlap;
    });
  };
  const std::vector<ParallelPlan> deepspeed = PlansIn(SpaceFor(kDeepSpeed, "bf16", {}));
  EXPECT_TRUE(has(deepspeed, false));
  EXPECT_FALSE(has(deepspeed, true));
  const std::vector<ParallelPlan> megatron = PlansIn(SpaceFor(kMegatron, "bf16", {}));
  EXPECT_FALSE(has(megatron, false));
  EXPECT_TRUE(has(megatron, true));
}

TEST(FrameworkSpace, HasOtherValuesWhereTheDefaultIsInexpressible) {
  for (const std::string_view framework : {kMegatron, kNemo}) {
    const auto count = [&](std::string_view precision, bool unfused) {
      const std::vector<ParallelPlan> plans = PlansIn(SpaceFor(framework, precision, {}));
      return std::count_if(plans.begin(), plans.end(),
                           [&](const ParallelPlan& plan) { return IsUnfused(plan) == unfused; });
    };
    EXPECT_GT(count("fp32", true), 0);
    EXPECT_EQ(count("fp32", false), 0);
    EXPECT_EQ(count("bf16", true), 0);
    EXPECT_GT(count("bf16", false), 0);
  }
}

// Derived options have values that the framework expresses.
TEST(FrameworkSpace, DerivesValuesThatTheFrameworkExpresses) {
  for (const std::string_view framework : kFrameworks) {
    const SearchSpace derived = SpaceFor(framework, "bf16", {});
    const auto every = PlansIn(SpaceFor(framework, "bf16", test::EveryDerivedValue()));
    const std::vector<ParallelPlan> open = test::AllAlternatives(derived);
    EXPECT_EQ(open.size(), every.size()) << framework;
    EXPECT_EQ(std::set<ParallelPlan>(open.begin(), open.end()),
              std::set<ParallelPlan>(every.begin(), every.end()))
        << framework;
  }
}

// A rule that depends on an option that it does not list would be checked too early by the enumeration.
TEST(FrameworkRules, DependOnNoOtherOptions) {
  const ModelSpec model = SmallModel();
  const std::vector<ParallelPlan> plans = PlansIn(SpaceFor("autocfg", "bf16",
                                                           {{"grad_overlap", {"0", "1"}},
                                                            {"param_overlap", {"0", "1"}},
                                                            {"dp_shard", {"2", "4", "8"}},
                                                            {"split", {"even", "auto"}}}));
  std::mt19937_64 random(3);
  for (const std::string_view framework : kFrameworks) {
    ASSERT_FALSE(FrameworkRules(framework).empty());
    for (const LegalityRule& rule : FrameworkRules(framework)) {
      EXPECT_EQ(rule.reason, IllegalReason::kNotExpressible);
      bool read_recompute = false, read_variant = false;
      for (const std::string_view name : rule.reads) {
        const PlanOption* option = FindPlanOption(name);
        ASSERT_NE(option, nullptr) << rule.name << " reads " << name;
        read_recompute = read_recompute || name == "recompute";
        read_variant = read_variant || option > FindPlanOption("recompute");
      }
      EXPECT_FALSE(read_recompute && read_variant) << rule.name;
      for (int i = 0; i < 500; ++i) {
        const ParallelPlan& plan = plans[random() % plans.size()];
        ParallelPlan mixed = plans[random() % plans.size()];
        for (const std::string_view name : rule.reads) FindPlanOption(name)->copy(plan, mixed);
        for (const std::string_view precision : {"bf16", "fp32"}) {
          const Workload workload = SmallWorkload(precision);
          EXPECT_EQ(rule.broken({{model, workload, mixed}, kRanks}),
                    rule.broken({{model, workload, plan}, kRanks}))
              << framework << ' ' << rule.name << ' ' << PlanText(plan);
        }
      }
    }
  }
}

}  // namespace
}  // namespace autocfg
