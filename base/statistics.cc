#include "base/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace autocfg::base {
namespace {

double MedianOfSorted(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

// Returns the largest k with P(Bin(n, 1/2) < k) <= 2.5%. Requires n >= 6, so that k is at least 1.
std::size_t OrderStatistic(std::size_t n) {
  const double nd = static_cast<double>(n);
  double below = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const double kd = static_cast<double>(k);
    below +=
        std::exp(std::lgamma(nd + 1) - std::lgamma(kd + 1) - std::lgamma(nd - kd + 1) - nd * std::log(2.0));
    if (below > 0.025) return k;
  }
  return n / 2;
}

}  // namespace

double Median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return MedianOfSorted(sorted);
}

std::optional<Interval> MedianInterval95(std::span<const double> values) {
  const std::size_t n = values.size();
  if (n < 2) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  if (n >= 6) {
    const std::size_t k = OrderStatistic(n);
    return Interval{sorted[k - 1], sorted[n - k]};
  }
  constexpr std::array<double, 4> kStudent95 = {12.706, 4.303, 3.182, 2.776};  // 1 to 4 degrees of freedom
  double mean = 0, squares = 0;
  for (double x : sorted) mean += x / static_cast<double>(n);
  for (double x : sorted) squares += (x - mean) * (x - mean);
  const double half =
      kStudent95[n - 2] * std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
  const double median = MedianOfSorted(sorted);
  return Interval{std::min(median - half, sorted.front()), std::max(median + half, sorted.back())};
}

std::optional<double> MedianCi95(std::span<const double> values) {
  const std::optional<Interval> interval = MedianInterval95(values);
  if (!interval) return std::nullopt;
  const double median = Median(values);
  return std::max(median - interval->low, interval->high - median);
}

}  // namespace autocfg::base
