// What is said of a run's step times: median, and how sure it is. Pure functions, thread-safe.
#pragma once

#include <vector>

namespace autocfg {

// 0 for no values. The mean of the two in the middle for an even count.
double Median(std::vector<double> values);

// Half width of a 95% confidence interval of the median, in the values' unit: from the median to the farther
// end of the order-statistics interval [x(k), x(n+1-k)], k the largest with P(Binomial(n, 1/2) < k) <= 2.5%
// (Conover 1999, section 3.2), free of assumptions on the distribution. Fewer than 6 values allow no such k:
// their whole range is taken (2 to 5 values: 50% to 94%). One value says nothing about its spread: the answer
// is the value itself. 0 for none.
double MedianCi95(std::vector<double> values);

}  // namespace autocfg
