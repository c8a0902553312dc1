// The median of measured steps and its confidence interval. The worker reports them, the planner decides by
// them and the command line shows them. A leaf: includes no other file of the project. Pure, thread-safe.
#pragma once

#include <optional>
#include <span>

namespace autocfg::base {

// Returns the middle value, or the mean of the two middle values. Requires at least one value.
double Median(std::span<const double> values);

struct Interval {
  double low = 0;
  double high = 0;
};

// Returns a 95% confidence interval of the median, or no value for fewer than two values.
//
// Six values or more: distribution-free, from order statistics. The number of values below the true median is
// binomial (n, 1/2), so [x_(k), x_(n+1-k)] covers it with probability 1 - 2 P(Bin(n, 1/2) < k). k is the
// largest value that keeps this at 95% or more (Conover, Practical Nonparametric Statistics, 3rd ed., section
// 3.2).
// Two to five values: no pair of order statistics reaches 95%, so the interval is Student's, median +- t s /
// sqrt(n), and at least the range of the values. It assumes that step times are normally distributed.
std::optional<Interval> MedianInterval95(std::span<const double> values);

// Returns the larger distance from the median to an end of that interval.
std::optional<double> MedianCi95(std::span<const double> values);

}  // namespace autocfg::base
