// Fits a line alpha + beta x to measured times, with neither coefficient below zero. Pure, thread-safe.
#pragma once

#include <span>

namespace autocfg {

// alpha + beta * bytes: latency in seconds, seconds per byte (Hockney 1994).
struct LinkModel {
  double alpha_s = 0;
  double beta_s_per_byte = 0;

  double Seconds(double bytes) const { return alpha_s + beta_s_per_byte * bytes; }
};

struct TimedSize {
  double size = 0;     // bytes or FLOPs, not negative
  double seconds = 0;  // positive
};

// Minimizes the squared relative error: the sum of ((alpha + beta x - t) / t)^2 with alpha, beta >= 0. Points
// without a positive time are ignored; {0, 0} if none remain.
LinkModel FitLine(std::span<const TimedSize> points);

}  // namespace autocfg
