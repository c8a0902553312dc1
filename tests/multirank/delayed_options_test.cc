// Every value of the table of plan options makes the steps of one rank where operations start as late as they
// may: a wait that is missing changes the result. A new value is run as soon as its row says that the engine
// runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "search/plan/legality.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "tests/support/plan_values.h"
#include "tests/trainer/model_styles.h"
#include "tests/trainer/same_outcome.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

using test::ExpectSameSteps;
using test::ExpectSameWeights;
using test::ModelStyles;
using test::RunAsThreads;
using test::TrainedRun;
using test::World;

// Three steps: the second and third reuse the buffers of the one before.
TrainConfig ThreeSteps(const ModelSpec& model) {
  TrainConfig c;
  c.model = model;
  test::SetLayers(c.model, 4);
  c.workload.global_batch = 8;
  c.workload.seq_len = 4;
  c.workload.precision = *ParsePrecision("fp64");
  c.lr = {.lr = 1e-2, .min_lr = 1e-3, .decay = LrDecay::kCosine, .warmup_steps = 0, .steps = 3};
  c.clip_norm = 0.5;
  c.seed = 5;
  return c;
}

// Together, all options away from their defaults.
constexpr const char* kBases[] = {
    "tp=2,pp=2,dp=2,mbs=1,recompute=full:1",
    "tp=2,pp=2,dp=2,mbs=1,schedule=zb-h1,sp=1,zero=1,p2p_overlap=1",
    "tp=2,pp=2,dp=1,mbs=1,vpp=2,recompute=selective,attention=unfused,p2p_overlap=1,scatter_gather=1",
    "tp=2,pp=2,dp=2,mbs=2,schedule=gpipe,split=1+3,zero=1,scatter_gather=1",
    "tp=2,pp=1,dp=4,mbs=1,sp=1,zero=2",
    "tp=1,pp=1,dp=4,mbs=1,recompute=full,zero=3,dp_shard=2",
};
constexpr std::int64_t kMostRanksOfOptions = 8;

// Returns the base, and the base with each value that the engine runs, where that is legal.
std::set<ParallelPlan> PlansOf(const char* base) {
  const TrainConfig c = ThreeSteps(ModelStyles().front());
  std::set<ParallelPlan> plans = {*ParsePlanText(base)};
  for (const test::OptionValue& value : test::EngineValues()) {
    ParallelPlan plan = *ParsePlanText(base);
    const absl::Status status = SetPlanOption(plan, value.name, value.value);
    if (!status.ok()) throw std::logic_error(std::string(status.message()));
    if (!FindIllegality({c.model, c.workload, plan}, kMostRanksOfOptions).has_value())
      plans.insert(Canonical(plan));
  }
  return plans;
}

class PlanOptionsOverDelayedWorld : public ::testing::TestWithParam<const char*> {};

TEST_P(PlanOptionsOverDelayedWorld, MatchOneRank) {
  for (const std::size_t style : {0, 1}) {  // GPT-2 and Llama
    TrainConfig c = ThreeSteps(ModelStyles().at(style));
    const TrainedRun one = RunAsThreads(c);
    for (const ParallelPlan& plan : PlansOf(GetParam())) {
      c.plan = plan;
      SCOPED_TRACE(c.model.name + ": " + PlanText(plan));
      const TrainedRun outcome = RunAsThreads(c, World::kDelayedUcx);
      EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
      ExpectSameSteps(one, outcome, 1e-9);
      ExpectSameWeights(c.model, one, outcome, 1e-9);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bases, PlanOptionsOverDelayedWorld, ::testing::ValuesIn(kBases));

TEST(PlanOptionsSetup, PlansTakeEveryValueThatTheEngineRuns) {
  std::vector<ParallelPlan> plans;
  for (const char* base : kBases) {
    EXPECT_EQ(Notes(*ParsePlanText(base)), std::vector<std::string>{}) << base;
    for (const ParallelPlan& plan : PlansOf(base)) plans.push_back(plan);
  }
  EXPECT_THAT(test::ValuesThatNoneTakes(plans), ::testing::IsEmpty())
      << "no base is legal with them; add one";
}

}  // namespace
}  // namespace autocfg::trainer
