#include "search/planner/recalibration.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace autocfg {
namespace {

ParallelPlan Plan(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t mbs,
                  Recompute recompute = Recompute::kNone) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.pp = pp;
  plan.dp = dp;
  plan.micro_batch = mbs;
  plan.recompute = recompute;
  return plan;
}

TEST(Recalibration, WithoutMeasurementsOnlyThePriors) {
  const Recalibration prior({});
  const Correction c = prior.For(Plan(2, 2, 2, 2));
  EXPECT_DOUBLE_EQ(c.log_mean, 0);
  EXPECT_GT(c.sigma, 0.2);
  EXPECT_LT(c.sigma, 0.6);
}

TEST(Recalibration, ACommonFactorCarriesOverToAllPlans) {
  std::vector<RatioObservation> seen;
  for (std::int64_t tp : {1, 2, 4, 8}) seen.push_back({Plan(tp, 1, 8 / tp, 1), std::log(1.3), 0.005});
  const Recalibration fitted(seen);
  const Correction c = fitted.For(Plan(2, 4, 1, 4));
  EXPECT_NEAR(c.log_mean, std::log(1.3), 0.06);
}

TEST(Recalibration, TightensNearWhatWasMeasured) {
  std::vector<RatioObservation> seen = {{Plan(2, 2, 2, 1), 0.1, 0.005},
                                        {Plan(2, 2, 2, 2), 0.11, 0.005},
                                        {Plan(4, 2, 1, 1), 0.02, 0.005},
                                        {Plan(1, 1, 8, 1), -0.05, 0.005}};
  const Recalibration fitted(seen);
  const Correction near = fitted.For(Plan(2, 2, 2, 4)), far = fitted.For(Plan(8, 1, 1, 8, Recompute::kFull));
  EXPECT_LT(near.sigma, far.sigma);
  EXPECT_LT(near.sigma, Recalibration({}).For(Plan(2, 2, 2, 4)).sigma / 2);
  EXPECT_GT(near.log_mean, 0.05);
  EXPECT_GE(near.sigma, 0.02) << "a plan's own effect is never taken as less than 2%";
}

TEST(Recalibration, LearnsHowMuchPlansScatter) {
  const auto residual = [](double scatter) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    std::vector<RatioObservation> seen;
    for (std::int64_t tp : {1, 2, 4}) {
      for (std::int64_t mbs : {1, 2, 4, 8}) {
        for (Recompute r : {Recompute::kNone, Recompute::kFull}) {
          seen.push_back({Plan(tp, 1, 4 / tp, mbs, r), 0.1 + scatter * normal(random), 0.005});
        }
      }
    }
    return Recalibration(seen).residual_sigma();
  };
  EXPECT_LT(residual(0.005), 0.03);
  EXPECT_GT(residual(0.12), 0.06);
}

// Truth drawn from the model's own kind of effects, predictions from a random part of the plans: the 90%
// interval holds about nine in ten of the others.
TEST(Recalibration, Coverage) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (std::size_t measured : {3u, 6u, 12u, 25u}) {
    int inside = 0, all = 0;
    for (int study = 0; study < 120; ++study) {
      const double common = 0.2 * normal(random), full = 0.1 * normal(random), slope = 0.1 * normal(random);
      const double own = 0.02 + 0.03 * std::abs(normal(random));
      std::vector<RatioObservation> plans;
      for (std::int64_t tp : {1, 2, 4, 8}) {
        for (std::int64_t pp = 1; tp * pp <= 8; pp *= 2) {
          const double layout = 0.1 * normal(random);
          for (std::int64_t mbs : {1, 2, 4}) {
            for (Recompute r : {Recompute::kNone, Recompute::kFull}) {
              const double log_ratio = common + layout + slope * std::log2(static_cast<double>(mbs)) +
                                       (r == Recompute::kFull ? full : 0) + own * normal(random);
              plans.push_back({Plan(tp, pp, 8 / tp / pp, mbs, r), log_ratio, 0.005});
            }
          }
        }
      }
      std::shuffle(plans.begin(), plans.end(), random);
      const Recalibration fitted({plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(measured)});
      for (std::size_t i = measured; i < plans.size(); ++i, ++all) {
        const Correction c = fitted.For(plans[i].plan);
        inside += std::abs(plans[i].log_ratio - c.log_mean) <= 1.645 * c.sigma;
      }
    }
    EXPECT_GT(inside, 0.8 * all) << measured;
    EXPECT_LT(inside, 0.99 * all) << measured;
  }
}

}  // namespace
}  // namespace autocfg
