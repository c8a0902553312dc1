#include "base/statistics.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace autocfg::base {
namespace {

TEST(Statistics, Median) {
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{3}), 3);
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{5, 1, 3}), 3);
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{4, 1, 3, 2}), 2.5);
}

// Ranks as tabulated for the sign test: n = 6 uses the full range, n = 10 the 2nd and 9th, n = 20 the 6th and
// 15th, n = 100 the 40th and 61st.
TEST(Statistics, IntervalFromOrderStatistics) {
  const auto check = [](int n, double low, double high) {
    std::vector<double> values;
    for (int i = n; i >= 1; --i) values.push_back(i);
    const auto interval = MedianInterval95(values);
    ASSERT_TRUE(interval.has_value());
    EXPECT_DOUBLE_EQ(interval->low, low) << n;
    EXPECT_DOUBLE_EQ(interval->high, high) << n;
  };
  check(6, 1, 6);
  check(8, 1, 8);
  check(9, 2, 8);
  check(10, 2, 9);
  check(20, 6, 15);
  check(100, 40, 61);
}

TEST(Statistics, FewValues) {
  EXPECT_FALSE(MedianInterval95(std::vector<double>{1}).has_value());
  EXPECT_FALSE(MedianCi95({}).has_value());
  // The half width is the longer side.
  EXPECT_DOUBLE_EQ(*MedianCi95(std::vector<double>{1, 2, 3, 4, 5, 60}), 60 - 3.5);
  EXPECT_DOUBLE_EQ(*MedianCi95(std::vector<double>{2, 2, 2}), 0);
}

// Fewer than six values: Student's t, two-sided 95%, as tabulated for 1 to 4 degrees of freedom.
TEST(Statistics, IntervalOfFewValuesFromStudentsT) {
  const auto check = [](double t, const std::vector<double>& values, double deviation) {
    const double half = t * deviation / std::sqrt(static_cast<double>(values.size()));
    const auto interval = MedianInterval95(values);
    ASSERT_TRUE(interval.has_value());
    EXPECT_NEAR(interval->low, Median(values) - half, 1e-9) << values.size();
    EXPECT_NEAR(interval->high, Median(values) + half, 1e-9) << values.size();
  };
  check(12.706, {3, 1}, std::sqrt(2.0));
  check(4.303, {1, 3, 2}, 1);
  check(3.182, {4, 1, 3, 2}, std::sqrt(5.0 / 3));
  check(2.776, {5, 1, 5, 1, 3}, 2);
  // The interval is never narrower than the values, even if their mean is far from their median.
  const auto wide = MedianInterval95(std::vector<double>{0, 0, 0, 100});
  ASSERT_TRUE(wide.has_value());
  EXPECT_DOUBLE_EQ(wide->high, 100);
  EXPECT_NEAR(wide->low, -3.182 * 50 / 2, 1e-9);
}

// For a skewed and a two-peaked distribution, the interval covers the true median in at least 95% of samples
// of six or more values, up to sampling error.
TEST(Statistics, CoverageWithoutNormality) {
  std::mt19937_64 random(3);
  const auto uniform = [&] { return static_cast<double>(random() % 1000003) / 1000003.0; };
  const auto skewed = [&] { return -std::log(1 - uniform()); };  // median log 2
  const auto two_peaks = [&] {
    return uniform() < 0.6 ? 1 + 0.1 * uniform() : 2 + uniform();
  };  // median 1 + 0.1 * 5/6
  for (int n : {6, 9, 15, 40}) {
    int first = 0, second = 0;
    constexpr int kTries = 4000;
    for (int t = 0; t < kTries; ++t) {
      std::vector<double> a, b;
      for (int i = 0; i < n; ++i) a.push_back(skewed()), b.push_back(two_peaks());
      const auto ia = *MedianInterval95(a), ib = *MedianInterval95(b);
      first += ia.low <= std::log(2.0) && std::log(2.0) <= ia.high;
      second += ib.low <= 1 + 0.5 / 6 && 1 + 0.5 / 6 <= ib.high;
    }
    EXPECT_GT(first, 0.94 * kTries) << n;
    EXPECT_GT(second, 0.94 * kTries) << n;
  }
}

}  // namespace
}  // namespace autocfg::base
