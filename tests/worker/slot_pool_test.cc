#include "worker/jobs/slot_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace autocfg::worker {
namespace {

TEST(SlotPool, GivesTheLowestFreeSlots) {
  const std::atomic<bool> stop{false};
  SlotPool pool(4);
  EXPECT_EQ(pool.Take(2, stop), (std::vector<int>{0, 1}));
  EXPECT_EQ(pool.Take(1, stop), (std::vector<int>{2}));
  pool.Give({0, 1});
  EXPECT_EQ(pool.Take(1, stop), (std::vector<int>{0}));
  EXPECT_EQ(pool.Take(2, stop), (std::vector<int>{1, 3})) << "they need not lie side by side";
}

TEST(SlotPool, RequestForTooManySlotsIsEmpty) {
  const std::atomic<bool> stop{false};
  SlotPool pool(2);
  EXPECT_TRUE(pool.Take(3, stop).empty());
  EXPECT_TRUE(pool.Take(0, stop).empty());
  EXPECT_TRUE(pool.Take(-1, stop).empty());
  EXPECT_EQ(pool.Take(2, stop).size(), 2u);
}

TEST(SlotPool, WaitsForFreeSlotsOrStop) {
  std::atomic<bool> stop{false};
  SlotPool pool(2);
  ASSERT_EQ(pool.Take(2, stop).size(), 2u);
  std::vector<int> taken;
  std::thread waiter([&] { taken = pool.Take(2, stop); });
  pool.Give({1});
  pool.Give({0});
  waiter.join();
  EXPECT_EQ(taken, (std::vector<int>{0, 1}));
  std::thread stopped([&] { taken = pool.Take(1, stop); });
  stop = true;
  stopped.join();
  EXPECT_TRUE(taken.empty());
}

TEST(SlotPool, NoSlotIsGivenTwice) {
  const std::atomic<bool> stop{false};
  SlotPool pool(5);
  std::atomic<int> users[5] = {};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 50; ++round) {
        const std::vector<int> slots = pool.Take(1 + thread % 3, stop);
        ASSERT_EQ(slots.size(), static_cast<std::size_t>(1 + thread % 3));
        for (const int slot : slots) EXPECT_EQ(users[slot]++, 0);
        for (const int slot : slots) --users[slot];
        pool.Give(slots);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace autocfg::worker
