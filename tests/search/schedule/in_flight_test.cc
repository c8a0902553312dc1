// What is in flight, in closed form here, counted in the generators' orders and in programs there.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "search/plan/model_stages.h"
#include "search/schedule/compute_order.h"
#include "search/schedule/generators.h"
#include "tests/search/schedule/programs.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

ParallelPlan Pipeline(Schedule schedule, std::int64_t pp, std::int64_t virtual_stages = 1) {
  return {{.pp = pp}, {}, {.virtual_stages = virtual_stages, .schedule = schedule}};
}

// Stages compared: in the compute order, and in the programs, with messages that overlap and without.
std::int64_t ExpectEqual(const ParallelPlan& plan, int microbatches) {
  const ParallelPlan overlapping = test::Overlapping(plan);
  const Program program = test::Make(plan, microbatches), early = test::Make(overlapping, microbatches);
  for (int rank = 0; rank < plan.pp; ++rank) {
    const ComputeOrder order = MakeComputeOrder(plan, rank, microbatches);
    for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
      const auto stage = static_cast<int>(StageOf(plan, rank, chunk));
      SCOPED_TRACE(::testing::Message()
                   << "schedule " << static_cast<int>(plan.schedule) << " pp " << plan.pp << " vpp "
                   << plan.virtual_stages << " m " << microbatches << " stage " << stage);
      EXPECT_EQ(InFlight(plan, microbatches, stage), MaxInFlight(order, stage));
      EXPECT_EQ(ActivationSlots(program.ranks[static_cast<std::size_t>(rank)], stage),
                MaxInFlight(order, stage));
      EXPECT_EQ(InFlight(overlapping, microbatches, stage),
                ActivationSlots(early.ranks[static_cast<std::size_t>(rank)], stage));
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

// All chunks of a rank together: the most that its order ever has in flight, and for the first rank
// Korthikanti et al. 2022, section 4.2.3: L (1 + (p - 1) / (p m)) layers of a microbatch, with m stages of
// L / (p m) layers.
TEST(InFlightTogether, IsTheMostOfARank) {
  for (int pp = 2; pp <= 6; ++pp) {
    for (int vpp = 1; vpp <= 5; ++vpp) {
      for (int rounds = 1; rounds <= 4; ++rounds) {
        const ParallelPlan plan = Pipeline(vpp == 1 ? Schedule::kOneFOneB : Schedule::kInterleaved, pp, vpp);
        const int microbatches = rounds * pp;
        for (int rank = 0; rank < pp; ++rank) {
          int now = 0, most = 0;
          for (const Action& action : MakeComputeOrder(plan, rank, microbatches)) {
            if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
            if (FreesSlot(action.kind)) --now;
          }
          std::int64_t together = 0;
          for (std::int64_t chunk = 0; chunk < vpp; ++chunk)
            together += InFlightTogether(plan, microbatches, StageOf(plan, rank, chunk));
          EXPECT_EQ(together, most) << "pp " << pp << " vpp " << vpp << " m " << microbatches << " rank "
                                    << rank;
          if (rank != 0 || rounds == 1) continue;
          EXPECT_EQ(together, pp * vpp + (vpp > 1 ? pp - 1 : 0));
        }
      }
    }
  }
}

// Where messages overlap, a stage that receives activations takes a slot one compute earlier. On the last of
// four stages of 1F1B, the input of microbatch 1 arrives during the backward of microbatch 0.
TEST(InFlight, OfStagesWhoseInputsArriveEarly) {
  const auto in_flight = [](Schedule schedule, std::int64_t microbatches) {
    std::vector<std::int64_t> of_stages;
    for (std::int64_t stage = 0; stage < 4; ++stage)
      of_stages.push_back(InFlight(test::Overlapping(Pipeline(schedule, 4)), microbatches, stage));
    return of_stages;
  };
  EXPECT_EQ(in_flight(Schedule::kOneFOneB, 8), (std::vector<std::int64_t>{4, 4, 3, 2}));
  EXPECT_EQ(in_flight(Schedule::kOneFOneB, 2), (std::vector<std::int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(in_flight(Schedule::kGPipe, 8), (std::vector<std::int64_t>{8, 8, 8, 8}));
  EXPECT_EQ(in_flight(Schedule::kZeroBubbleH1, 8), (std::vector<std::int64_t>{4, 5, 5, 5}));
  EXPECT_EQ(in_flight(Schedule::kZeroBubbleH1, 4), (std::vector<std::int64_t>{4, 4, 4, 4}));
  EXPECT_EQ(InFlight(test::Overlapping({{.pp = 1}}), 8, 0), 1);
}

}  // namespace
}  // namespace autocfg
