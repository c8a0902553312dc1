#include "worker/step_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace autocfg {
namespace {

std::vector<double> Range(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(StepStatistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Median({9, 1, 5, 7}), 6);
}

// k by the tables of the binomial distribution with p = 1/2.
TEST(StepStatistics, IntervalEndsAtTheTabulatedOrderStatistics) {
  EXPECT_EQ(MedianCi95(Range(6)), 2.5);     // k=1: 3.5 - 1
  EXPECT_EQ(MedianCi95(Range(8)), 3.5);     // k=1: 4.5 - 1
  EXPECT_EQ(MedianCi95(Range(9)), 3);       // k=2: 5 - 2
  EXPECT_EQ(MedianCi95(Range(20)), 4.5);    // k=6: 10.5 - 6
  EXPECT_EQ(MedianCi95(Range(100)), 10.5);  // k=40: 50.5 - 40
}

TEST(StepStatistics, FewValuesTakeTheirRange) {
  EXPECT_EQ(MedianCi95({}), 0);
  EXPECT_EQ(MedianCi95({4}), 4);
  EXPECT_EQ(MedianCi95({1, 2, 10}), 8);  // the farther side
}

TEST(StepStatistics, CoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> draw(1.0);  // skewed, as step times are; median ln 2
  int covered = 0;
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> values(15);
    for (double& value : values) value = draw(random);
    covered += std::abs(Median(values) - std::log(2.0)) <= MedianCi95(values) ? 1 : 0;
  }
  EXPECT_GE(covered, kRuns * 95 / 100);
}

TEST(StepStatistics, ManyValuesDoNotOverflow) { EXPECT_NEAR(MedianCi95(Range(20000)), 138.5, 2); }

}  // namespace
}  // namespace autocfg
