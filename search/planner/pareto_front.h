// The plans of which no other is better in both step time and memory. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

namespace autocfg {

class ParetoFront {
 public:
  struct Point {
    double seconds = 0;
    std::uint32_t memory = 0;  // in any unit
    std::size_t index = 0;     // identifies the plan to the caller
  };

  // Returns whether one of the front is as fast and takes as little.
  bool Beats(double seconds, std::uint32_t memory) const {
    const auto after = points_.upper_bound(seconds);
    return after != points_.begin() && std::prev(after)->second.memory <= memory;
  }

  // Takes the plan in unless one of the front is as fast and takes as little. Drops those that it beats.
  // Logarithmic in the size of the front.
  void Offer(const Point& point) {
    if (Beats(point.seconds, point.memory)) return;
    auto beaten = points_.lower_bound(point.seconds);
    while (beaten != points_.end() && beaten->second.memory >= point.memory) beaten = points_.erase(beaten);
    points_.emplace_hint(beaten, point.seconds, point);
  }

  // Returns the least memory of all plans offered; the largest value if there was none.
  std::uint32_t LeastMemory() const {
    return points_.empty() ? std::numeric_limits<std::uint32_t>::max() : points_.rbegin()->second.memory;
  }

  // Returns at most `limit` points, fastest first. If there are more, both ends and others evenly between.
  std::vector<Point> Points(std::size_t limit) const {
    std::vector<Point> all;
    for (const auto& [seconds, point] : points_) all.push_back(point);
    if (all.size() <= limit || limit == 0) {
      all.resize(std::min(all.size(), limit));
      return all;
    }
    std::vector<Point> some;
    for (std::size_t i = 0; i < limit; ++i)
      some.push_back(all[limit == 1 ? 0 : i * (all.size() - 1) / (limit - 1)]);
    return some;
  }

 private:
  std::map<double, Point> points_;  // by seconds; the slower, the less memory
};

}  // namespace autocfg
