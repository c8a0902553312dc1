// Messages that overlap compute make the steps of one rank, in every world: also where operations start as
// late as they may, which shows a wait that is missing, and where they are ordered on a device's streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "tests/support/plan_values.h"
#include "tests/trainer/same_outcome.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

using test::ExpectSameSteps;
using test::ExpectSameWeights;
using test::RunAsThreads;
using test::SmallConfig;
using test::TrainedRun;
using test::World;

// Three steps: the second and third reuse the buffers of the one before.
TrainConfig OverlapConfig() {
  TrainConfig c = SmallConfig();
  c.lr.steps = 3;
  return c;
}

const TrainedRun& OneRankRun() {
  static const TrainedRun run = RunAsThreads(OverlapConfig());
  return run;
}

// Every schedule on two ranks or four, beside a tensor group whose messages are whole, scattered, and of own
// rows, with few microbatches and many.
std::vector<ParallelPlan> OverlappingPlans() {
  std::vector<ParallelPlan> plans;
  for (const Schedule schedule : test::PredictedSchedules()) {
    const std::int64_t vpp = TakesVirtualStages(schedule) ? 2 : 1;
    for (const std::int64_t pp : {2, 4}) {
      if (pp * vpp > 4) continue;
      for (const std::int64_t micro_batch : {1, 4}) {
        for (const bool scatters : {false, true}) {
          ParallelPlan plan{{.tp = scatters ? 2 : 1, .pp = pp},
                            {.micro_batch = micro_batch},
                            {.virtual_stages = vpp, .schedule = schedule},
                            {.p2p_overlap = true, .scatter_gather = scatters}};
          plans.push_back(plan);
        }
      }
    }
    ParallelPlan rows{{.tp = 2, .pp = 2, .dp = 2},
                      {.recompute = Recompute::kFull, .sequence_parallel = true},
                      {.virtual_stages = vpp, .schedule = schedule, .recompute_layers = 1},
                      {.p2p_overlap = true}};
    plans.push_back(rows);
    // Sums of chunks beside messages: of all rows, which are cut evenly, and of own rows, which are not.
    rows.tp_overlap = 3;
    plans.push_back(rows);
    plans.push_back({{.tp = 2, .pp = 2},
                     {.micro_batch = 4, .tp_overlap = 4},
                     {.virtual_stages = vpp, .schedule = schedule},
                     {.p2p_overlap = true, .scatter_gather = true}});
  }
  return plans;
}

class OverlapWorlds : public ::testing::TestWithParam<World> {};

TEST_P(OverlapWorlds, MatchOneRank) {
  for (const ParallelPlan& plan : OverlappingPlans()) {
    TrainConfig c = OverlapConfig();
    c.plan = plan;
    SCOPED_TRACE(PlanText(plan));
    ASSERT_FALSE(FindIllegality({c.model, c.workload, plan}, RankCount(plan)).has_value());
    const TrainedRun outcome = RunAsThreads(c, GetParam());
    EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
    ExpectSameSteps(OneRankRun(), outcome, 1e-9);
    ExpectSameWeights(c.model, OneRankRun(), outcome, 1e-9);
    if (HasFailure()) return;
  }
}

std::string WorldName(const ::testing::TestParamInfo<World>& info) {
  constexpr const char* kNames[] = {"Ucx", "DelayedUcx", "Staged", "Streamed"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Worlds, OverlapWorlds,
                         ::testing::Values(World::kUcx, World::kDelayedUcx, World::kStaged, World::kStreamed),
                         WorldName);

}  // namespace
}  // namespace autocfg::trainer
