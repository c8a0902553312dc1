#include "search/cost/op_times/line_fit.h"

#include <cmath>

namespace autocfg {

LinkModel FitLine(std::span<const TimedSize> points) {
  // With w = 1/t^2: sums of w, w x, w x x, w t, w x t. Sizes are scaled by the largest one, so that the
  // determinant stays accurate.
  double scale = 0;
  for (const TimedSize& p : points) scale = std::fmax(scale, p.size);
  if (scale <= 0) scale = 1;
  double w0 = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const TimedSize& p : points) {
    if (!(p.seconds > 0) || !std::isfinite(p.seconds)) continue;
    const double w = 1 / (p.seconds * p.seconds), x = p.size / scale;
    w0 += w, wx += w * x, wxx += w * x * x, wt += w * p.seconds, wxt += w * x * p.seconds;
  }
  if (w0 <= 0) return {};
  const double determinant = w0 * wxx - wx * wx;
  const LinkModel flat{wt / w0, 0};
  if (wxx <= 0) return flat;  // every size is zero
  const LinkModel through_zero{0, wxt / wxx / scale};
  if (determinant <= 1e-12 * w0 * wxx) return through_zero;  // all sizes are equal
  const double alpha = (wt * wxx - wxt * wx) / determinant;
  const double beta = (w0 * wxt - wx * wt) / determinant;
  // The constrained optimum lies on the boundary that the free optimum violates.
  if (beta < 0) return flat;
  if (alpha < 0) return through_zero;
  return {alpha, beta / scale};
}

}  // namespace autocfg
