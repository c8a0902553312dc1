// The median of measured steps and its confidence interval: what the worker reports, the planner decides by
// and the command line shows. A leaf: includes nothing of ours. Pure, thread-safe.
#pragma once

#include <optional>
#include <span>

namespace autocfg {

// The middle value, or the mean of the two middle ones. Requires at least one value.
double Median(std::span<const double> values);

struct Interval {
  double low = 0;
  double high = 0;
};

// A 95% confidence interval of the median; empty for fewer than two values.
//
// Six values or more: distribution-free, from order statistics. The number of values below the true median is
// binomial (n, 1/2), so [x_(k), x_(n+1-k)] covers it with probability 1 - 2 P(Bin(n, 1/2) < k); k is the
// largest that keeps this at 95% or more (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).
// Two to five values: no pair of order statistics reaches 95%, so the interval is median +- t s / sqrt(n),
// Student's, and at least the range of the values. That one supposes that steps scatter about normally.
std::optional<Interval> MedianInterval95(std::span<const double> values);

// Half the width of that interval, to either side whichever is longer.
std::optional<double> MedianCi95(std::span<const double> values);

}  // namespace autocfg
