#include "search/planner/strategy/confirmation.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/planner/strategy/improvement.h"
#include "search/planner/strategy/strategies.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CandidatePlan Measured(double seconds, int repeats) {
  CandidatePlan c;
  c.measured_s = seconds;
  c.repeats = repeats;
  return c;
}

TEST(Confirmation, TiedPlansTakeTurns) {
  std::vector<CandidatePlan> candidates(4);
  const double medians[] = {1.04, 1.0, 1.2, 1.02};
  for (std::size_t i = 0; i < 4; ++i) {
    candidates[i].measured_s = medians[i];
    candidates[i].measured_ci95_s = 0.01;
    candidates[i].repeats = 1;
  }
  EXPECT_EQ(SuggestConfirmation(candidates), (std::vector<std::size_t>{1, 3, 0}));
  for (std::size_t i : {1, 3, 0}) candidates[i].repeats = 3;
  EXPECT_EQ(SuggestConfirmation(candidates), (std::vector<std::size_t>{1, 3, 0})) << "the last turn";
  for (std::size_t i : {1, 3, 0}) candidates[i].repeats = 4;
  EXPECT_TRUE(SuggestConfirmation(candidates).empty()) << "three repeats each";

  for (std::size_t i : {1, 3, 0}) candidates[i].repeats = 2;
  candidates[0].measured_s = 1.3;  // no longer tied
  EXPECT_EQ(SuggestConfirmation(candidates), (std::vector<std::size_t>{1, 3}));
  candidates[3].measured_s = 1.3;
  EXPECT_TRUE(SuggestConfirmation(candidates).empty()) << "one plan alone needs none";
}

TEST(Confirmation, SlicesAreNotRepeated) {
  std::vector<CandidatePlan> candidates(3);
  for (CandidatePlan& c : candidates) {
    c.measured_s = 1.0;
    c.repeats = 1;
    c.predicted.step_time_s = c.predicted.step_time_low_s = c.predicted.step_time_high_s = 1.0;
    c.slice = true;
  }
  EXPECT_TRUE(SuggestConfirmation(candidates).empty());
  EXPECT_EQ(RacingStrategy(0).TrialsLeft(candidates, IndependentChances()), 0);
  candidates[0].slice = candidates[1].slice = false;
  EXPECT_EQ(SuggestConfirmation(candidates), (std::vector<std::size_t>{0, 1}));
}

TEST(Confirmation, OverlappingIntervalsAreTied) {
  std::vector<CandidatePlan> candidates(2);
  candidates[0].measured_s = 1.0;
  candidates[1].measured_s = 1.2;
  for (CandidatePlan& c : candidates) {
    c.repeats = 1;
    c.measured_ci95_s = 0.05;
  }
  EXPECT_TRUE(SuggestConfirmation(candidates).empty());
  candidates[1].measured_ci95_s = 0.16;
  EXPECT_EQ(SuggestConfirmation(candidates).size(), 2u);
  candidates[1].failed = true;
  EXPECT_TRUE(SuggestConfirmation(candidates).empty());
}

TEST(Confirmation, EachPlanIsRepeatedThreeTimes) {
  EXPECT_THAT(SuggestConfirmation({Measured(1, 1), Measured(1.04, 1)}), ElementsAre(0, 1));
  EXPECT_THAT(SuggestConfirmation({Measured(1, 4), Measured(1.04, 3)}), ElementsAre(1));
  EXPECT_THAT(SuggestConfirmation({Measured(1, 3), Measured(1.04, 4)}), ElementsAre(0));
  EXPECT_THAT(SuggestConfirmation({Measured(1, 4), Measured(1.04, 4)}), IsEmpty());
}

TEST(Confirmation, UnrepeatablePlansAreNotRepeated) {
  std::vector<CandidatePlan> candidates = {Measured(1, 1), Measured(1.04, 1)};
  candidates[0].repeatable = false;
  EXPECT_THAT(SuggestConfirmation(candidates), ElementsAre(1));
  candidates[1].repeatable = false;
  EXPECT_THAT(SuggestConfirmation(candidates), IsEmpty());
}

TEST(Confirmation, RepeatsTheThreeFastestTiedPlans) {
  EXPECT_THAT(SuggestConfirmation({Measured(1.04, 1), Measured(1.01, 1), Measured(1, 1), Measured(1.02, 1)}),
              ElementsAre(2, 1, 3));
}

TEST(Confirmation, TurnsDoNotExceedTheBound) {
  std::vector<CandidatePlan> candidates = {Measured(1, 2), Measured(1, 2), Measured(2, 4), Measured(2, 3)};
  EXPECT_EQ(ConfirmationsDone(candidates), 7);
  EXPECT_THAT(SuggestConfirmation(candidates), ElementsAre(0, 1)) << "nine in all";
  candidates[3].repeats = 4;
  EXPECT_THAT(SuggestConfirmation(candidates), IsEmpty());
}

}  // namespace
}  // namespace autocfg
