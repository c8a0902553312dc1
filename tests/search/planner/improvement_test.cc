// What unmeasured plans may gain, against figures of the normal distribution and against drawn plans.
#include "search/planner/strategy/improvement.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace autocfg {
namespace {

Prediction Predicted(double seconds, double sigma) {
  Prediction p;
  p.step_time_s = seconds;
  p.step_time_low_s = seconds * std::exp(-1.645 * sigma);
  p.step_time_high_s = seconds * std::exp(1.645 * sigma);
  return p;
}

TEST(Improvement, DeviationIsThatOfTheInterval) { EXPECT_NEAR(LogSigma(Predicted(2, 0.07)), 0.07, 1e-12); }

// Tables of the normal distribution: 15.87% lie below one deviation, 2.275% below two.
TEST(Improvement, ChanceIsNormal) {
  EXPECT_NEAR(ChanceBelow(Predicted(1, 0.1), 1), 0.5, 1e-12);
  EXPECT_NEAR(ChanceBelow(Predicted(1, 0.1), std::exp(-0.1)), 0.1587, 1e-4);
  EXPECT_NEAR(ChanceBelow(Predicted(1, 0.1), std::exp(-0.2)), 0.02275, 1e-5);
  EXPECT_EQ(ChanceBelow(Predicted(1, 0), 1.01), 1);
  EXPECT_EQ(ChanceBelow(Predicted(1, 0), 0.99), 0);
}

// The mean gain over drawn times.
TEST(Improvement, ExpectedImprovementIsTheMeanGain) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const double predicted : {0.9, 1.0, 1.1}) {
    const int draws = 400'000;
    double sum = 0;
    for (int i = 0; i < draws; ++i) sum += std::max(0.0, -(std::log(predicted) + 0.08 * normal(random)));
    EXPECT_NEAR(ExpectedImprovement(Predicted(predicted, 0.08), 1), sum / draws, 5e-4) << predicted;
  }
  EXPECT_DOUBLE_EQ(ExpectedImprovement(Predicted(0.5, 0), 1), std::log(2));
  EXPECT_EQ(ExpectedImprovement(Predicted(2, 0), 1), 0);
}

std::vector<CandidatePlan> Plans(const std::vector<Prediction>& predictions) {
  std::vector<CandidatePlan> candidates(predictions.size());
  for (std::size_t i = 0; i < predictions.size(); ++i) candidates[i].predicted = predictions[i];
  return candidates;
}

TEST(Improvement, IndependentChancesMultiply) {
  const std::vector<CandidatePlan> plans = Plans({Predicted(1, 0.1), Predicted(1, 0.1), Predicted(2, 0)});
  const std::vector<double> chances = IndependentChances().ChanceOfAnyFrom(plans, {0, 1, 2}, 1);
  ASSERT_EQ(chances.size(), 4u);
  EXPECT_NEAR(chances[0], 0.75, 1e-12);
  EXPECT_NEAR(chances[1], 0.5, 1e-12);
  EXPECT_EQ(chances[2], 0);
  EXPECT_EQ(chances[3], 0);
}

// Plans that err alike: the chance of any is never above that of independent ones.
TEST(Improvement, IndependentChancesBoundPlansThatErrAlike) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  const std::vector<double> predicted = {1.02, 1.05, 1.05, 1.1};
  std::vector<Prediction> predictions;
  for (const double p : predicted) predictions.push_back(Predicted(p, 0.05));
  const double bound = IndependentChances().ChanceOfAnyFrom(Plans(predictions), {0, 1, 2, 3}, 1).front();
  for (const double shared : {0.0, 0.5, 0.9}) {
    const int draws = 200'000;
    int any = 0;
    for (int i = 0; i < draws; ++i) {
      const double common = normal(random);
      bool below = false;
      for (const double p : predicted) {
        const double z = std::sqrt(shared) * common + std::sqrt(1 - shared) * normal(random);
        below = std::log(p) + 0.05 * z < 0 || below;
      }
      any += below;
    }
    const double seen = static_cast<double>(any) / draws;
    EXPECT_LE(seen, bound + 0.005) << shared;
    if (shared == 0) {
      EXPECT_NEAR(seen, bound, 0.005);
    }
  }
}

TEST(Improvement, RaceCountsThePlansUntilTheChanceIsSmall) {
  const auto race = [](std::vector<double> chance_from) {
    return Race{.candidates = {}, .chance_from = std::move(chance_from)};
  };
  EXPECT_EQ(race({0}).UntilChance(0.05), 0);
  EXPECT_EQ(race({0.04, 0.02, 0}).UntilChance(0.05), 0);
  EXPECT_EQ(race({0.4, 0.2, 0.05, 0}).UntilChance(0.05), 2);
  EXPECT_EQ(race({1, 1, 0}).UntilChance(0.05), 2);
}

TEST(Improvement, RaceIsAgainstTheFastestMeasuredPlan) {
  std::vector<CandidatePlan> plans = Plans({Predicted(1, 0.1), Predicted(1.1, 0.1), Predicted(1.05, 0.1)});
  const Race unmeasured = RaceOf(plans, {1, 2}, IndependentChances());
  EXPECT_EQ(unmeasured.candidates, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(unmeasured.chance_from, (std::vector<double>{1, 1, 0}));
  plans[0].measured_s = 1.02;
  const Race race = RaceOf(plans, {1, 2}, IndependentChances());
  EXPECT_EQ(race.candidates, (std::vector<std::size_t>{2, 1})) << "the likeliest first";
  ASSERT_EQ(race.chance_from.size(), 3u);
  EXPECT_DOUBLE_EQ(race.chance_from[1], ChanceBelow(plans[1].predicted, 1.02 * 0.99));
}

}  // namespace
}  // namespace autocfg
