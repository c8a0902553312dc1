#include "base/ordered_tasks.h"

#include <stdexcept>
#include <vector>

#include "gtest/gtest.h"

namespace autocfg::base {
namespace {

constexpr std::size_t kCount = 200;

TEST(OrderedTasks, HandsOverEachTaskOnceInOrder) {
  for (const int threads : {0, 1, 2, 7, 500}) {
    SCOPED_TRACE(threads);
    std::vector<int> ran(kCount), done;
    const OrderedTasks tasks{.count = kCount,
                             .run =
                                 [&](std::size_t, std::size_t task, const std::atomic<bool>&) {
                                   ran[task] += static_cast<int>(task);
                                   return true;
                                 },
                             .done =
                                 [&](std::size_t task) {
                                   done.push_back(ran[task]);
                                   return true;
                                 },
                             .goes_on = [] { return true; }};
    EXPECT_TRUE(RunInOrder(tasks, {.count = threads}));
    ASSERT_EQ(done.size(), kCount);
    for (std::size_t task = 0; task < kCount; ++task) EXPECT_EQ(done[task], static_cast<int>(task));
  }
}

TEST(OrderedTasks, HasNothingToDoWithoutTasks) {
  EXPECT_TRUE(RunInOrder({.count = 0, .run = {}, .done = {}, .goes_on = {}}, {.count = 4}));
}

TEST(OrderedTasks, EndsWhereAskedTo) {
  std::size_t done = 0;
  const OrderedTasks tasks{.count = kCount,
                           .run = [](std::size_t, std::size_t, const std::atomic<bool>&) { return true; },
                           .done = [&](std::size_t) { return ++done < 5; },
                           .goes_on = [] { return true; }};
  EXPECT_FALSE(RunInOrder(tasks, {.count = 3}));
  EXPECT_EQ(done, 5u);
}

TEST(OrderedTasks, EndsWhereATaskSaysSo) {
  const OrderedTasks tasks{
      .count = kCount,
      .run = [](std::size_t, std::size_t task, const std::atomic<bool>&) { return task < 9; },
      .done = [](std::size_t task) { return task <= 9; },
      .goes_on = [] { return true; }};
  for (const int threads : {1, 4}) EXPECT_FALSE(RunInOrder(tasks, {.count = threads}));
}

// Tasks of other threads see `stop` when the caller's question is answered no.
TEST(OrderedTasks, StopsTasksThatRun) {
  std::atomic<bool> other_runs = false;
  const OrderedTasks tasks{.count = 2,
                           .run =
                               [&](std::size_t thread, std::size_t, const std::atomic<bool>& stop) {
                                 if (thread == 0) {
                                   while (!other_runs) {
                                   }
                                   return true;
                                 }
                                 other_runs = true;
                                 while (!stop) {
                                 }
                                 return true;
                               },
                           .done = [](std::size_t) { return true; },
                           .goes_on = [] { return false; }};
  EXPECT_FALSE(RunInOrder(tasks, {.count = 2}));
}

TEST(OrderedTasks, RethrowsTheFirstException) {
  const OrderedTasks tasks{.count = kCount,
                           .run =
                               [](std::size_t, std::size_t task, const std::atomic<bool>&) {
                                 if (task == 3) throw std::logic_error("three");
                                 return true;
                               },
                           .done = [](std::size_t task) { return task < 3; },
                           .goes_on = [] { return true; }};
  for (const int threads : {1, 4}) EXPECT_THROW(RunInOrder(tasks, {.count = threads}), std::logic_error);
}

double OneSecond() { return 1; }

TEST(OrderedTasks, CountsTheTimeOfTheThreadsItStarts) {
  double seconds = 0.5;
  const OrderedTasks tasks{.count = kCount,
                           .run = [](std::size_t, std::size_t, const std::atomic<bool>&) { return true; },
                           .done = [](std::size_t) { return true; },
                           .goes_on = [] { return true; }};
  RunInOrder(tasks, {.count = 4, .cpu_seconds = OneSecond, .add_cpu_seconds = &seconds});
  EXPECT_EQ(seconds, 3.5);
}

}  // namespace
}  // namespace autocfg::base
