// One test suite for every strategy: the properties that SearchLoop relies on, for any trial outcomes.
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "search/planner/strategy/confirmation.h"
#include "search/planner/strategy/improvement.h"
#include "search/planner/strategy/strategies.h"

namespace autocfg {
namespace {

// Strategies are the same for any model of chances.
const IndependentChances kChances;

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<Strategy>(std::int64_t max_trials)> make;
};

std::vector<CandidatePlan> Candidates(std::size_t n, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  std::vector<CandidatePlan> candidates(n);
  for (std::size_t i = 0; i < n; ++i) {
    CandidatePlan& c = candidates[i];
    c.plan.tp = std::int64_t{1} << (random() % 4);
    c.plan.pp = std::int64_t{1} << (random() % 3);
    c.plan.micro_batch = static_cast<std::int64_t>(i + 1);
    c.predicted.feasible = true;
    c.predicted.step_time_s = 0.5 + uniform(random);
    const double spread = 1 + 0.4 * uniform(random);
    c.predicted.step_time_low_s = c.predicted.step_time_s / spread;
    c.predicted.step_time_high_s = c.predicted.step_time_s * spread;
  }
  return candidates;
}

using Rounds = std::vector<std::vector<std::size_t>>;

// Runs the strategy to its end; some trials fail, some are lost.
Rounds Drive(Strategy& strategy, std::vector<CandidatePlan>& candidates, std::uint64_t seed,
             double failing = 0.15) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  Rounds rounds;
  while (rounds.size() < 1000) {
    const std::vector<std::size_t> round = strategy.Suggest(candidates, kChances);
    if (round.empty()) return rounds;
    EXPECT_LE(static_cast<std::int64_t>(round.size()), strategy.TrialsLeft(candidates, kChances));
    std::set<std::size_t> distinct;
    for (std::size_t i : round) {
      if (i >= candidates.size()) {
        ADD_FAILURE() << "suggested " << i << " of " << candidates.size();
        return rounds;
      }
      EXPECT_TRUE(distinct.insert(i).second) << "twice in a round";
      CandidatePlan& c = candidates[i];
      EXPECT_FALSE(c.failed);
      EXPECT_TRUE(c.repeats == 0 || c.repeatable);
      const double outcome = uniform(random);
      if (outcome < failing) {
        c.failed = true;
      } else if (outcome < 2 * failing) {
        if (c.repeats > 0)
          c.repeatable = false;
        else if (c.samples++ > 1)
          c.failed = true;  // lost too often
      } else {
        c.measured_s = c.predicted.step_time_s * (0.9 + 0.2 * uniform(random));
        c.measured_ci95_s = 0.02 * *c.measured_s;
        ++c.repeats;
      }
    }
    rounds.push_back(round);
  }
  ADD_FAILURE() << "does not end";
  return rounds;
}

class StrategyConformance : public ::testing::TestWithParam<Implementation> {};

TEST_P(StrategyConformance, LegalAndFinite) {
  std::mt19937_64 random(1);
  for (std::size_t n : {1u, 2u, 3u, 7u, 30u, 75u, 200u}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<CandidatePlan> candidates = Candidates(n, random);
      Drive(*GetParam().make(0), candidates, seed);
      EXPECT_LE(ConfirmationsDone(candidates), kMostConfirmations);
    }
  }
}

// Plans unmeasured only because of max_trials count as left. Plans that the strategy itself rejects do not.
TEST_P(StrategyConformance, PlansLeft) {
  std::mt19937_64 random(3);
  // Summed over all bounded runs: one of them may have measured its best plan by chance.
  std::int64_t left = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<CandidatePlan> candidates = Candidates(60, random);
    EXPECT_GT(GetParam().make(2)->PlansLeft(candidates, kChances), 2);
    EXPECT_EQ(GetParam().make(2)->PlansLeft(candidates, kChances),
              GetParam().make(0)->PlansLeft(candidates, kChances));
    std::vector<CandidatePlan> bounded = candidates;
    Drive(*GetParam().make(2), bounded, seed, 0);
    left += GetParam().make(2)->PlansLeft(bounded, kChances);
    Drive(*GetParam().make(0), candidates, seed, 0);
    EXPECT_EQ(GetParam().make(0)->PlansLeft(candidates, kChances), 0);
  }
  EXPECT_GT(left, 20);
  EXPECT_EQ(GetParam().make(0)->PlansLeft({}, kChances), 0);
}

TEST_P(StrategyConformance, NothingToSuggestWithoutCandidates) {
  const auto strategy = GetParam().make(0);
  EXPECT_TRUE(strategy->Suggest({}, kChances).empty());
  EXPECT_EQ(strategy->TrialsLeft({}, kChances), 0);
}

TEST_P(StrategyConformance, Deterministic) {
  std::mt19937_64 random(2);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<CandidatePlan> one = Candidates(60, random);
    std::vector<CandidatePlan> two = one;
    EXPECT_EQ(Drive(*GetParam().make(0), one, seed), Drive(*GetParam().make(0), two, seed));
  }
}

TEST_P(StrategyConformance, KeepsToMaxTrials) {
  std::mt19937_64 random(3);
  for (std::int64_t most : {1, 3, 10}) {
    std::vector<CandidatePlan> candidates = Candidates(40, random);
    Drive(*GetParam().make(most), candidates, 5, 0);
    std::int64_t measured = 0;
    for (const CandidatePlan& c : candidates) measured += c.repeats > 0;
    EXPECT_LE(measured, most);
    EXPECT_GT(measured, 0);
  }
}

TEST_P(StrategyConformance, AllTrialsFail) {
  std::mt19937_64 random(4);
  std::vector<CandidatePlan> candidates = Candidates(12, random);
  const auto strategy = GetParam().make(0);
  for (int round = 0; round < 50; ++round) {
    const auto suggested = strategy->Suggest(candidates, kChances);
    if (suggested.empty()) break;
    for (std::size_t i : suggested) candidates[i].failed = true;
  }
  EXPECT_TRUE(strategy->Suggest(candidates, kChances).empty());
}

TEST_P(StrategyConformance, MeasuresTheBestPredictedFirst) {
  std::mt19937_64 random(5);
  const std::vector<CandidatePlan> candidates = Candidates(40, random);
  std::size_t best = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].predicted.step_time_s < candidates[best].predicted.step_time_s) best = i;
  }
  EXPECT_EQ(GetParam().make(0)->Suggest(candidates, kChances).front(), best);
}

INSTANTIATE_TEST_SUITE_P(
    All, StrategyConformance,
    ::testing::Values(
        Implementation{"Racing", [](std::int64_t n) { return std::make_unique<RacingStrategy>(n); }},
        Implementation{"Exhaustive", [](std::int64_t n) { return std::make_unique<ExhaustiveStrategy>(n); }}),
    [](const auto& instance) { return instance.param.name; });

TEST(RacingStrategy, FirstRoundHasOnePlanPerLayout) {
  std::mt19937_64 random(6);
  std::vector<CandidatePlan> candidates = Candidates(60, random);
  std::set<std::pair<std::int64_t, std::int64_t>> layouts;
  const auto round = RacingStrategy(0).Suggest(candidates, kChances);
  EXPECT_EQ(round.size(), 6u);
  for (std::size_t i : round) layouts.insert({candidates[i].plan.tp, candidates[i].plan.pp});
  EXPECT_EQ(layouts.size(), 6u);
  RacingStrategy racing(0);
  Drive(racing, candidates, 7, 0);
  std::int64_t measured = 0;
  for (const CandidatePlan& c : candidates) measured += c.repeats > 0;
  EXPECT_LE(measured, 20);
}

TEST(RacingStrategy, LargeSpacesHaveAFixedBound) {
  std::mt19937_64 random(16);
  for (const std::size_t n : {100u, 1000u, 5000u}) {
    std::vector<CandidatePlan> candidates = Candidates(n, random);
    RacingStrategy racing(0);
    EXPECT_LE(racing.TrialsLeft(candidates, kChances), kMostRaced + kMostConfirmations);
    Drive(racing, candidates, 7, 0);
    std::int64_t measured = 0;
    for (const CandidatePlan& c : candidates) measured += c.repeats > 0;
    EXPECT_LE(measured, kMostRaced);
  }
}

// Candidate i of a family recomputes less than candidate i + 1.
std::vector<CandidatePlan> Families(std::size_t families, std::size_t size, std::mt19937_64& random) {
  std::vector<CandidatePlan> candidates = Candidates(families * size, random);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i % size != 0) candidates[i].less_work = i - 1;
  }
  return candidates;
}

TEST(RacingStrategy, DominatedPlansWaitForAFailure) {
  std::mt19937_64 random(17);
  std::vector<CandidatePlan> candidates = Families(30, 4, random);
  EXPECT_FALSE(IsDominated(candidates, 0));
  EXPECT_TRUE(IsDominated(candidates, 1));
  EXPECT_TRUE(IsDominated(candidates, 3));
  candidates[0].failed = true;
  EXPECT_FALSE(IsDominated(candidates, 1));
  EXPECT_TRUE(IsDominated(candidates, 2));
  candidates[0].failed = false;
  candidates[1].failed = true;
  EXPECT_TRUE(IsDominated(candidates, 2)) << "the first of all may still run";
  candidates[1].failed = false;

  RacingStrategy racing(0);
  Drive(racing, candidates, 3, 0);
  std::int64_t measured = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    measured += candidates[i].repeats > 0;
    EXPECT_TRUE(i % 4 == 0 || candidates[i].repeats == 0) << i;
  }
  EXPECT_GT(measured, 3);
  EXPECT_LE(measured, 10) << "a third of the families";

  std::vector<CandidatePlan> failing = Families(5, 4, random);
  for (std::size_t i = 0; i < failing.size(); i += 4) failing[i].failed = true;
  for (const std::size_t i : RacingStrategy(10).Suggest(failing, kChances)) EXPECT_EQ(i % 4, 1u);
}

TEST(ExhaustiveStrategy, MeasuresDominatedPlansToo) {
  std::mt19937_64 random(18);
  std::vector<CandidatePlan> candidates = Families(6, 4, random);
  ExhaustiveStrategy strategy(0);
  Drive(strategy, candidates, 7, 0);
  for (const CandidatePlan& c : candidates) EXPECT_GE(c.repeats, 1);
}

TEST(RacingStrategy, EndsWhenNoOtherPlanCanWin) {
  std::mt19937_64 random(8);
  std::vector<CandidatePlan> candidates = Candidates(30, random);
  for (CandidatePlan& c : candidates) {
    c.predicted.step_time_low_s = 0.99 * c.predicted.step_time_s;
    c.predicted.step_time_high_s = 1.01 * c.predicted.step_time_s;
  }
  candidates[4].predicted.step_time_s = 0.1;
  candidates[4].measured_s = 0.1;
  candidates[4].repeats = 1;
  EXPECT_TRUE(RacingStrategy(0).Suggest(candidates, kChances).empty());
  // It is more than 1% faster with a chance of 4.8%, then of 7.1%.
  candidates[9].predicted.step_time_s = 0.101;
  candidates[9].predicted.step_time_low_s = 0.099;
  candidates[9].predicted.step_time_high_s = 0.103;
  EXPECT_TRUE(RacingStrategy(0).Suggest(candidates, kChances).empty());
  EXPECT_NEAR(RacingStrategy(0).ChanceOfBetter(candidates, kChances), 0.048, 0.001);
  candidates[9].predicted.step_time_low_s = 0.0985;
  EXPECT_EQ(RacingStrategy(0).Suggest(candidates, kChances), std::vector<std::size_t>{9});
  EXPECT_NEAR(RacingStrategy(0).ChanceOfBetter(candidates, kChances), 0.071, 0.001);
}

TEST(ExhaustiveStrategy, MeasuresEveryPlan) {
  std::mt19937_64 random(7);
  std::vector<CandidatePlan> candidates = Candidates(33, random);
  ExhaustiveStrategy strategy(0);
  Drive(strategy, candidates, 7, 0);
  for (const CandidatePlan& c : candidates) EXPECT_GE(c.repeats, 1);
}

}  // namespace
}  // namespace autocfg
