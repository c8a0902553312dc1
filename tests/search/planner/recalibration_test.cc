#include "search/planner/recalibration/recalibration.h"

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

constexpr std::int64_t kLayers = 24;

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

// A step of compute alone, unless a test is about its parts.
constexpr Breakdown kCompute{.compute = 1};

RatioObservation Seen(const ParallelPlan& plan, double log_ratio, double noise_sigma,
                      const Breakdown& predicted = kCompute) {
  return {.plan = plan, .predicted = predicted, .log_ratio = log_ratio, .noise_sigma = noise_sigma};
}

TEST(Recalibration, UsesPriorsWithoutMeasurements) {
  const Recalibration prior(kLayers, {});
  const Correction c = prior.For(Plan(2, 2, 2, 2), kCompute);
  EXPECT_DOUBLE_EQ(c.log_mean, 0);
  EXPECT_GT(c.sigma, 0.2);
  EXPECT_LT(c.sigma, 0.6);
}

TEST(Recalibration, CommonFactorAppliesToAllPlans) {
  std::vector<RatioObservation> seen;
  for (std::int64_t tp : {1, 2, 4, 8}) seen.push_back(Seen(Plan(tp, 1, 8 / tp, 1), std::log(1.3), 0.005));
  const Recalibration fitted(kLayers, seen);
  const Correction c = fitted.For(Plan(2, 4, 1, 4), kCompute);
  EXPECT_NEAR(c.log_mean, std::log(1.3), 0.06);
}

TEST(Recalibration, TightensNearMeasurements) {
  std::vector<RatioObservation> seen = {
      Seen(Plan(2, 2, 2, 1), 0.1, 0.005), Seen(Plan(2, 2, 2, 2), 0.11, 0.005),
      Seen(Plan(4, 2, 1, 1), 0.02, 0.005), Seen(Plan(1, 1, 8, 1), -0.05, 0.005)};
  const Recalibration fitted(kLayers, seen);
  const Correction near = fitted.For(Plan(2, 2, 2, 4), kCompute),
                   far = fitted.For(Plan(8, 1, 1, 8, Recompute::kFull), kCompute);
  EXPECT_LT(near.sigma, far.sigma);
  EXPECT_LT(near.sigma, Recalibration(kLayers, {}).For(Plan(2, 2, 2, 4), kCompute).sigma / 2);
  EXPECT_GT(near.log_mean, 0.05);
  EXPECT_GE(near.sigma, 0.005) << "a plan's own effect is never taken as less than half a percent";
}

TEST(Recalibration, EstimatesThePlansOwnEffect) {
  const auto residual = [](double scatter) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    std::vector<RatioObservation> seen;
    for (std::int64_t tp : {1, 2, 4}) {
      for (std::int64_t mbs : {1, 2, 4, 8}) {
        for (Recompute r : {Recompute::kNone, Recompute::kFull}) {
          seen.push_back(Seen(Plan(tp, 1, 4 / tp, mbs, r), 0.1 + scatter * normal(random), 0.005));
        }
      }
    }
    return Recalibration(kLayers, seen).residual_sigma();
  };
  EXPECT_LT(residual(0.005), 0.03);
  EXPECT_GT(residual(0.12), 0.06);
}

// full:K lies between none and full, by the share of layers that it recomputes, for every split.
TEST(Recalibration, RecomputeIsAShareOfTheLayers) {
  std::vector<RatioObservation> seen;
  for (std::int64_t tp : {1, 2, 4}) {
    for (std::int64_t mbs : {1, 2}) {
      seen.push_back(Seen(Plan(tp, 4, 2, mbs), 0.0, 0.005));
      seen.push_back(Seen(Plan(tp, 4, 2, mbs, Recompute::kFull), 0.2, 0.005));
    }
  }
  const Recalibration fitted(kLayers, seen);
  const auto at = [&](std::int64_t k, std::vector<std::int64_t> split = {}) {
    ParallelPlan plan = Plan(8, 4, 2, 1, Recompute::kFull);
    plan.recompute_layers = k;
    if (!split.empty()) plan.split = SplitMode::kExplicit;
    plan.split_layers = std::move(split);
    return fitted.For(plan, kCompute).log_mean;
  };
  const double none = fitted.For(Plan(8, 4, 2, 1), kCompute).log_mean, full = at(0);
  ASSERT_GT(full - none, 0.1);
  EXPECT_NEAR(at(3), (none + full) / 2, 1e-9) << "3 of the 6 layers of each stage";
  EXPECT_NEAR(at(6), full, 1e-9);
  // 2 + 2 + 2 + 1 of 24 layers, without the effect of the uneven split.
  EXPECT_NEAR(at(2, {7, 8, 8, 1}) - at(8, {7, 8, 8, 1}), (none - full) * (1 - 7.0 / 24), 1e-9);
}

// A measurement of one plan corrects plans with another value of an option less than plans with its own. The
// values below are not told apart: their errors are assumed alike.
TEST(Recalibration, TellsThePredictedValuesOfOptionsApart) {
  const std::set<std::string> not_told_apart = {
      "recompute=selective", "attention=unfused", "scatter_gather=1", "zero=1", "zero=2", "zero=3",
      "dp_shard=1",          "dp_shard=2",        "dp_shard=4"};
  const ParallelPlan base{{.tp = 2, .pp = 4, .dp = 2},
                          {.micro_batch = 4},
                          {.virtual_stages = 2, .schedule = Schedule::kInterleaved}};
  const Recalibration fitted(kLayers, {Seen(base, 0.3, 0.005)});
  const double own = fitted.For(base, kCompute).log_mean;
  std::set<std::string> without_term;
  int compared = 0;
  for (const PlanOption& option : PlanOptions()) {
    std::vector<std::string> values(option.choices.begin(), option.choices.end());
    if (option.form == OptionForm::kSize) values = {"1", "2", "4"};
    if (option.name == "split") values = {"9+5+5+5"};
    if (option.name == "recompute") values = {"selective", "full", "full:1"};
    for (const std::string& value : values) {
      ParallelPlan plan = base;
      ASSERT_TRUE(option.parse(option, value, plan).ok()) << option.name << "=" << value;
      if (option.equal(plan, base) || !CheckPredictable(plan).ok()) continue;
      ++compared;
      if (fitted.For(plan, kCompute).log_mean == own)
        without_term.insert(fmt::format("{}={}", option.name, value));
    }
  }
  EXPECT_EQ(without_term, not_told_apart) << "give RowOf an effect, or name the value here";
  EXPECT_GE(compared, 12);
}

// A part of the step that takes longer than predicted does so in the plans that have more of it, in
// proportion.
TEST(Recalibration, PartsOfTheStepErrByTheirShare) {
  std::vector<RatioObservation> seen;
  const auto step = [](double share) { return Breakdown{.compute = 1 - share, .dp_comm = share}; };
  for (const double share : {0.0, 0.1, 0.2, 0.3, 0.4}) {
    for (const std::int64_t mbs : {1, 2})
      seen.push_back(Seen(Plan(2, 1, 4, mbs), std::log1p(0.4 * share), 0.002, step(share)));
  }
  const Recalibration fitted(kLayers, seen);
  const auto at = [&](double share) { return fitted.For(Plan(2, 1, 4, 1), step(share)).log_mean; };
  EXPECT_NEAR(at(0), 0, 0.01);
  EXPECT_NEAR(at(0.5), std::log1p(0.4 * 0.5), 0.03);
}

// Shapes of layers that are alike err alike: what was measured at one micro batch says more of the next one
// than of a far one.
TEST(Recalibration, ShapesLeanOnTheNearest) {
  std::vector<RatioObservation> seen;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    seen.push_back(Seen(Plan(tp, 1, 8 / tp, 1), 0.0, 0.002));
    seen.push_back(Seen(Plan(tp, 1, 8 / tp, 16), 0.2, 0.002));
  }
  const Recalibration fitted(kLayers, seen);
  const auto at = [&](std::int64_t mbs) { return fitted.For(Plan(2, 1, 4, mbs), kCompute); };
  EXPECT_LT(at(1).log_mean, at(2).log_mean);
  EXPECT_LT(at(2).log_mean, at(8).log_mean);
  EXPECT_LT(at(8).log_mean, at(16).log_mean);
  EXPECT_LT(at(16).sigma, at(4).sigma);
}

// Observations with one and two virtual stages extrapolate to four.
TEST(Recalibration, VirtualStagesHaveASlope) {
  std::vector<RatioObservation> seen;
  const auto plan = [](std::int64_t tp, std::int64_t v) {
    ParallelPlan p = Plan(tp, 2, 4, 1);
    p.virtual_stages = v;
    p.schedule = Schedule::kInterleaved;
    return p;
  };
  for (std::int64_t tp : {1, 2, 4, 8}) {
    seen.push_back(Seen(plan(tp, 2), 0.1, 0.005));
    seen.push_back(Seen(plan(tp, 4), 0.2, 0.005));
  }
  const Recalibration fitted(kLayers, seen);
  const double two = fitted.For(plan(2, 2), kCompute).log_mean,
               four = fitted.For(plan(2, 4), kCompute).log_mean;
  EXPECT_NEAR(four - two, 0.1, 0.03);
  EXPECT_GT(fitted.For(plan(2, 8), kCompute).log_mean, four + 0.05);
}

// One observation, each hypothesis computed by hand: the mixture that For() sums up in advance.
TEST(Recalibration, WeightsHypothesesByTheirPosterior) {
  const double y = 0.3, noise = 0.01;
  const ParallelPlan seen = Plan(2, 1, 1, 1), asked = Plan(4, 1, 1, 1);
  // Prior variances: all plans 0.2^2; schedule and recompute 0.1^2 each; split, and messages, sums,
  // gradients and parameters that overlap 0.03^2 each; sequence parallelism and tp per squared doubling
  // 0.05^2 each; layout 0.1^2 with itself; shapes 0.1^2, of which four fifths are common to shapes one
  // doubling apart, less by a third of it.
  const double both = 0.04 + 0.02 + 5 * 0.0009 + 0.0025;
  const double own_seen = both + 0.01 + 0.0025 + 0.01, own_asked = both + 0.01 + 4 * 0.0025 + 0.01,
               cross = both + 2 * 0.0025 + 0.008 * std::exp(-1.0 / 3);
  double sum = 0, mean = 0, square = 0, best = -1e300;
  struct Point {
    double log_weight, mean, variance;
  };
  std::vector<Point> points;
  for (double r : {0.005, 0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.15}) {
    for (double scale : {0.5, 1.0, 2.5}) {
      const double s2 = scale * scale, v = s2 * own_seen + r * r + noise * noise;
      const double a = std::log(r / 0.03) / 0.8, b = std::log(scale) / 0.6;
      points.push_back({-(a * a + b * b) / 2 - y * y / v / 2 - std::log(v) / 2, s2 * cross * y / v,
                        s2 * own_asked - s2 * cross * s2 * cross / v + r * r});
      best = std::max(best, points.back().log_weight);
    }
  }
  for (const Point& p : points) {
    if (p.log_weight < best - std::log(100.0)) continue;
    const double w = std::exp(p.log_weight - best);
    sum += w;
    mean += w * p.mean;
    square += w * (p.variance + p.mean * p.mean);
  }
  mean /= sum;
  const Correction c = Recalibration(kLayers, {Seen(seen, y, noise)}).For(asked, kCompute);
  // A millionth of a shape's variance keeps shapes apart.
  EXPECT_NEAR(c.log_mean, mean, 1e-7);
  EXPECT_NEAR(c.sigma, std::sqrt(square / sum - mean * mean), 1e-7);
}

// One plan that is like no measured one: the chance of it alone is that of its normal distribution, but for
// the mixture and the draws.
TEST(Recalibration, ChanceOfOnePlanIsThatOfItsInterval) {
  std::vector<RatioObservation> seen;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    for (const std::int64_t mbs : {1, 2, 4}) seen.push_back(Seen(Plan(tp, 1, 8 / tp, mbs), 0.1, 0.005));
  }
  const Recalibration fitted(kLayers, seen);
  const ParallelPlan asked = Plan(2, 4, 1, 2, Recompute::kFull);
  const Correction c = fitted.For(asked, kCompute);
  for (const double deviations : {-1.0, 0.0, 1.0}) {
    const auto chances = fitted.ChanceOfAnyFrom({{&asked, &kCompute, c.log_mean + deviations * c.sigma}});
    ASSERT_EQ(chances.size(), 2u);
    EXPECT_NEAR(chances[0], std::erfc(-deviations / std::sqrt(2.0)) / 2, 0.08) << deviations;
    EXPECT_EQ(chances[1], 0);
  }
}

// Many plans of a layout that was never measured err together by its effect: that any of them is far from its
// prediction is hardly likelier than that one is. Plans that differ in what each has of its own are as many
// chances.
TEST(Recalibration, PlansWithAnUnknownLayoutErrTogether) {
  std::vector<RatioObservation> seen;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    for (const std::int64_t mbs : {1, 2, 4, 8}) {
      for (const Recompute r : {Recompute::kNone, Recompute::kFull})
        seen.push_back(Seen(Plan(tp, 1, 8 / tp, mbs, r), 0.1 + 0.01 * normal(random), 0.005));
    }
  }
  const Recalibration fitted(kLayers, seen);
  std::vector<ParallelPlan> plans;
  for (const std::int64_t mbs : {1, 2, 4, 8}) {
    for (const Recompute r : {Recompute::kNone, Recompute::kFull}) plans.push_back(Plan(2, 4, 1, mbs, r));
  }
  std::vector<Recalibration::Threshold> thresholds;
  double independent = 1;
  for (const ParallelPlan& plan : plans) {
    const Correction c = fitted.For(plan, kCompute);
    const double deviations = -1.2;
    thresholds.push_back({&plan, &kCompute, c.log_mean + deviations * c.sigma});
    independent *= 1 - std::erfc(-deviations / std::sqrt(2.0)) / 2;
  }
  const std::vector<double> chances = fitted.ChanceOfAnyFrom(thresholds);
  ASSERT_EQ(chances.size(), plans.size() + 1);
  EXPECT_GT(chances.front(), 0.08) << "one plan alone has 11%";
  EXPECT_LT(chances.front(), 0.25);
  EXPECT_GT(1 - independent, 0.6) << "what eight independent ones would have";
  for (std::size_t k = 1; k < chances.size(); ++k) EXPECT_LE(chances[k], chances[k - 1]);
  EXPECT_EQ(fitted.ChanceOfAnyFrom(thresholds), chances) << "the same draws each time";
}

// True times are drawn from the model's own kinds of effects and fitted from a random subset of the plans.
// The 90% interval covers about nine in ten of the others.
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
              plans.push_back(Seen(Plan(tp, pp, 8 / tp / pp, mbs, r), log_ratio, 0.005));
            }
          }
        }
      }
      std::shuffle(plans.begin(), plans.end(), random);
      const Recalibration fitted(kLayers,
                                 {plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(measured)});
      for (std::size_t i = measured; i < plans.size(); ++i, ++all) {
        const Correction c = fitted.For(plans[i].plan, kCompute);
        inside += std::abs(plans[i].log_ratio - c.log_mean) <= 1.645 * c.sigma;
      }
    }
    EXPECT_GT(inside, 0.8 * all) << measured;
    EXPECT_LT(inside, 0.99 * all) << measured;
  }
}

}  // namespace
}  // namespace autocfg
