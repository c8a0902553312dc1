#include "search/training_time/checkpoint_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace autocfg {
namespace {

constexpr double kMinute = 60, kHour = 3600;

// The captions of figures 3 to 5 of Daly 2006 give the optimum for a dump of 5 minutes.
TEST(BestCheckpointInterval, IsThatOfThePaper) {
  const auto minutes = [](double mtbf_s) {
    return BestCheckpointInterval({mtbf_s, 5 * kMinute, 10 * kMinute}) / kMinute;
  };
  EXPECT_NEAR(minutes(24 * kHour), 117, 0.5);
  EXPECT_NEAR(minutes(6 * kHour), 57, 0.5);
  EXPECT_NEAR(minutes(15 * kMinute), 9.1, 0.05);
}

// Returns the interval with the least expected time, by golden section search: the slowdown is convex in it.
double MinimumBySearch(const FailureTimes& times) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double low = 1e-3 * times.mtbf_s * std::sqrt(times.checkpoint_s / times.mtbf_s), high = 10 * times.mtbf_s;
  for (int i = 0; i < 200; ++i) {
    const double a = high - ratio * (high - low), b = low + ratio * (high - low);
    if (ExpectedSlowdown(times, a) < ExpectedSlowdown(times, b)) {
      high = b;
    } else {
      low = a;
    }
  }
  return (low + high) / 2;
}

TEST(BestCheckpointInterval, MinimizesTheExpectedTime) {
  for (const double mtbf_s : {600.0, 3600.0, 86400.0, 1e7}) {
    for (const double share : {1e-5, 1e-3, 0.05, 0.3, 0.9, 1.5}) {
      const FailureTimes times{mtbf_s, share * mtbf_s, 120};
      const double best = MinimumBySearch(times), estimate = BestCheckpointInterval(times);
      // A series: exact for short checkpoints, within a tenth for those as long as the mean time to failure.
      EXPECT_NEAR(estimate, best, (share < 0.1 ? 0.002 : 0.1) * best) << mtbf_s << " " << share;
      EXPECT_LE(ExpectedSlowdown(times, estimate), 1.003 * ExpectedSlowdown(times, best));
    }
  }
  EXPECT_EQ(BestCheckpointInterval({100, 200, 0}), 100);
}

// Simulates segments of computing and one checkpoint each, with failures at random times, and returns the
// wall time over the time of computing.
double Simulate(const FailureTimes& times, double interval_s, int segments, unsigned seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> life(1 / times.mtbf_s);
  double wall = 0, until_failure = life(random);
  // Returns whether `seconds` pass without a failure.
  const auto pass = [&](double seconds) {
    if (until_failure >= seconds) {
      until_failure -= seconds;
      wall += seconds;
      return true;
    }
    wall += until_failure;
    until_failure = life(random);
    return false;
  };
  for (int i = 0; i < segments; ++i) {
    while (!pass(interval_s + times.checkpoint_s)) {
      while (!pass(times.restart_s)) {
      }
    }
  }
  return wall / (segments * interval_s);
}

TEST(ExpectedSlowdown, IsThatOfASimulation) {
  for (const FailureTimes& times : {FailureTimes{24 * kHour, 300, 600}, FailureTimes{6 * kHour, 300, 600},
                                    FailureTimes{15 * kMinute, 300, 600}, FailureTimes{2 * kHour, 5, 3600}}) {
    for (const double factor : {0.5, 1.0, 2.0}) {
      const double interval = factor * BestCheckpointInterval(times);
      const double expected = ExpectedSlowdown(times, interval);
      EXPECT_NEAR(Simulate(times, interval, 200'000, 7), expected, 0.01 * expected)
          << times.mtbf_s << " " << factor;
    }
  }
}

TEST(ExpectedSlowdown, GoesToNoOverheadWithoutFailures) {
  const double forever = std::numeric_limits<double>::infinity();
  EXPECT_EQ(BestCheckpointInterval({forever, 60, 600}), forever);
  EXPECT_EQ(ExpectedSlowdown({forever, 60, 600}, forever), 1);
  EXPECT_DOUBLE_EQ(ExpectedSlowdown({forever, 60, 600}, 600), 1.1);
  EXPECT_TRUE(Progresses({forever, 60, 600}));
  double last = 2;
  for (const double mtbf_s : {1e6, 1e9, 1e12, 1e15}) {
    const FailureTimes times{mtbf_s, 60, 600};
    const double slowdown = ExpectedSlowdown(times, BestCheckpointInterval(times));
    EXPECT_GT(slowdown, 1);
    EXPECT_LT(slowdown, last);
    last = slowdown;
  }
  EXPECT_NEAR(last, 1, 1e-6);
}

TEST(Progresses, NotIfItFailsBeforeACheckpointIsWritten) {
  EXPECT_TRUE(Progresses({61, 60, 0}));
  EXPECT_FALSE(Progresses({60, 60, 0}));
  EXPECT_FALSE(Progresses({1, 60, 0}));
  EXPECT_FALSE(Progresses({1, 0.5, 3600})) << "exp(3600) is no number";
}

TEST(JobMtbfSeconds, IsSharedByTheNodes) { EXPECT_EQ(JobMtbfSeconds(5000, 20), 250); }

}  // namespace
}  // namespace autocfg
