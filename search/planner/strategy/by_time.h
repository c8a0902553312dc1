// Sorts plans by time; times that differ only by rounding count as equal. Pure, thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "search/plan/parallel_plan.h"

namespace autocfg {

struct TimedPlan {
  double seconds = 0;
  std::size_t index = 0;  // identifies the plan to the caller
};

// Returns a key that orders equally fast plans: less memory first, then the default schedule.
inline auto Preference(std::int64_t memory_bytes, const ParallelPlan& plan) {
  return std::tuple(memory_bytes, plan.schedule != DefaultSchedule(plan.virtual_stages));
}

// Sorts the plans and truncates them to `limit`. Plans within a billionth of the fastest of a group are
// equally fast. They are ordered by preference(index), then by index; `preference` is called only for them.
template <typename PreferenceOf>
void SortByTime(std::vector<TimedPlan>& plans, std::size_t limit, const PreferenceOf& preference) {
  constexpr double kSame = 1 + 1e-9;
  limit = std::min(limit, plans.size());
  if (limit == 0) return plans.clear();
  const auto faster = [](const TimedPlan& a, const TimedPlan& b) {
    return std::tie(a.seconds, a.index) < std::tie(b.seconds, b.index);
  };
  const auto last = plans.begin() + static_cast<std::ptrdiff_t>(limit - 1);
  std::nth_element(plans.begin(), last, plans.end(), faster);
  const double slowest = last->seconds * kSame;
  std::erase_if(plans, [&](const TimedPlan& p) { return p.seconds > slowest; });
  std::sort(plans.begin(), plans.end(), faster);
  for (std::size_t begin = 0; begin < plans.size();) {
    std::size_t end = begin + 1;
    while (end < plans.size() && plans[end].seconds <= plans[begin].seconds * kSame) ++end;
    if (end - begin > 1) {
      using Key = decltype(preference(std::size_t{}));
      std::vector<std::tuple<Key, std::size_t, double>> tied;
      for (std::size_t i = begin; i < end; ++i)
        tied.emplace_back(preference(plans[i].index), plans[i].index, plans[i].seconds);
      std::sort(tied.begin(), tied.end());
      for (std::size_t i = begin; i < end; ++i)
        plans[i] = {std::get<2>(tied[i - begin]), std::get<1>(tied[i - begin])};
    }
    begin = end;
  }
  plans.resize(limit);
}

}  // namespace autocfg
