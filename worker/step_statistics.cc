#include "worker/step_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace autocfg {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double MedianCi95(std::vector<double> values) {
  const std::size_t n = values.size();
  if (n == 0) return 0;
  if (n == 1) return values[0];
  std::sort(values.begin(), values.end());
  // Below k: the sum of C(n, i) / 2^n for i < k; each term from its logarithm, so that large n do not
  // underflow to a wrong sum.
  std::size_t k = 0;
  double below = 0;
  for (std::size_t i = 0; i < n / 2; ++i) {
    const double size = static_cast<double>(n);
    const double at = static_cast<double>(i);
    below += std::exp(std::lgamma(size + 1) - std::lgamma(at + 1) - std::lgamma(size - at + 1) -
                      size * std::log(2.0));
    if (below > 0.025) break;
    k = i + 1;
  }
  const std::size_t low = k == 0 ? 0 : k - 1;
  const double median = Median(values);
  return std::max(median - values[low], values[n - 1 - low] - median);
}

}  // namespace autocfg
