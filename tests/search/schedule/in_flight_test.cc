// What is in flight, in closed form here, counted in the generators' orders there.
#include <gtest/gtest.h>

#include <random>

#include "search/plan/model_stages.h"
#include "search/schedule/compute_order.h"
#include "search/schedule/generators.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

ParallelPlan Pipeline(Schedule schedule, std::int64_t pp, std::int64_t virtual_stages = 1) {
  return {{.pp = pp}, {}, {.virtual_stages = virtual_stages, .schedule = schedule}};
}

// Stages compared.
std::int64_t ExpectEqual(const ParallelPlan& plan, int microbatches) {
  for (int rank = 0; rank < plan.pp; ++rank) {
    const ComputeOrder order = MakeComputeOrder(plan, rank, microbatches);
    for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
      const auto stage = static_cast<int>(StageOf(plan, rank, chunk));
      EXPECT_EQ(InFlight(plan, microbatches, stage), MaxInFlight(order, stage))
          << "pp " << plan.pp << " vpp " << plan.virtual_stages << " m " << microbatches << " stage "
          << stage;
    }
  }
  return StageCount(plan);
}

TEST(InFlight, OfOneStagePerRank) {
  for (int pp = 1; pp <= 9; ++pp) {
    for (int m = 1; m <= 20; ++m) {
      for (const Schedule schedule : test::PredictedPlainSchedules()) ExpectEqual(Pipeline(schedule, pp), m);
    }
  }
}

TEST(InFlight, OfInterleavedStages) {
  std::int64_t stages = 0;
  for (int pp = 2; pp <= 9; ++pp) {
    for (int vpp = 2; vpp <= 7; ++vpp) {
      for (int rounds = 1; rounds <= 7; ++rounds)
        stages += ExpectEqual(Pipeline(Schedule::kInterleaved, pp, vpp), rounds * pp);
    }
  }
  EXPECT_EQ(stages, 7 * 44 * 27);
}

TEST(InFlight, OfRandomPipelines) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const auto pp = static_cast<int>(2 + random() % 31);
    const auto vpp = static_cast<int>(2 + random() % 12);
    const auto rounds = static_cast<int>(1 + random() % 10);
    ExpectEqual(Pipeline(Schedule::kInterleaved, pp, vpp), rounds * pp);
  }
}

// Narayanan et al. 2021, figure 4 (bottom), counted by hand. Rank 0 has forwarded all eight microbatches on
// its first chunk before a backward reaches that. Rank 3 has five there: 3F4 comes before 3B0.
TEST(InFlight, AsDrawn) {
  const ParallelPlan plan = Pipeline(Schedule::kInterleaved, 4, 2);
  EXPECT_EQ(InFlight(plan, 8, 0), 8);
  EXPECT_EQ(InFlight(plan, 8, 4), 4);
  EXPECT_EQ(InFlight(plan, 8, 3), 5);
  EXPECT_EQ(InFlight(plan, 8, 7), 1);
}

}  // namespace
}  // namespace autocfg
