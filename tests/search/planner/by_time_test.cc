#include "search/planner/strategy/by_time.h"

#include "gtest/gtest.h"

namespace autocfg {
namespace {

std::vector<std::size_t> Order(std::vector<TimedPlan> plans, std::size_t limit,
                               const std::vector<std::int64_t>& memory) {
  SortByTime(plans, limit, [&](std::size_t i) { return Preference(memory[i], ParallelPlan{}); });
  std::vector<std::size_t> order;
  for (const TimedPlan& p : plans) order.push_back(p.index);
  return order;
}

TEST(SortByTime, IgnoresRoundingDifferences) {
  const std::vector<TimedPlan> plans = {{2, 0}, {1 + 1e-12, 1}, {1, 2}, {1 + 1e-6, 3}, {1 + 1e-13, 4}};
  const std::vector<std::int64_t> memory = {1, 5, 9, 1, 7};
  const std::vector<std::size_t> all = {1, 4, 2, 3, 0};
  for (std::size_t limit = 0; limit <= 7; ++limit) {
    const std::size_t size = std::min(limit, all.size());
    EXPECT_EQ(Order(plans, limit, memory),
              std::vector<std::size_t>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size)))
        << limit;
  }
  EXPECT_TRUE(Order({}, 3, {}).empty());
}

TEST(Preference, LessMemoryThenTheDefaultSchedule) {
  const ParallelPlan usual, gpipe{{}, {}, {.schedule = Schedule::kGPipe}};
  const ParallelPlan interleaved{{}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}};
  EXPECT_LT(Preference(1, gpipe), Preference(2, usual));
  EXPECT_LT(Preference(1, usual), Preference(1, gpipe));
  EXPECT_EQ(Preference(1, usual), Preference(1, interleaved));
}

}  // namespace
}  // namespace autocfg
