#include "worker/jobs/slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "tests/support/fake_nvml/fake_gpus.h"
#include "worker/machine/inventory.h"

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

std::vector<int> FirstSlots(int count) {
  std::vector<int> slots(static_cast<std::size_t>(count));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

TEST(PinRanks, OneCorePerRankIfThereAreEnough) {
  EXPECT_EQ(PinRanks(2, {4, 6, 8}), (std::vector<std::vector<int>>{{4}, {6}}));
}

TEST(PinRanks, RoundRobinIfThereAreTooFew) {
  EXPECT_EQ(PinRanks(5, {0, 2}), (std::vector<std::vector<int>>{{0}, {2}, {0}, {2}, {0}}));
  EXPECT_TRUE(PinRanks(3, {}).empty());
}

TEST(SlotsToTake, EqualsLocalRanks) {
  v1::LeaseWorkResponse lease;
  lease.mutable_job()->set_ranks(64);
  v1::Inventory inventory;
  inventory.set_slots(4);
  EXPECT_EQ(SlotsToTake(lease, inventory), 64) << "the ranks of a plan need each other";
  lease.mutable_job()->set_fewer_ranks(true);
  EXPECT_EQ(SlotsToTake(lease, inventory), 4);
  lease.mutable_job()->set_fewer_ranks(false);
  lease.mutable_share()->set_first_rank(2);
  lease.mutable_share()->set_ranks(3);
  EXPECT_EQ(SlotsToTake(lease, inventory), 3);
}

TEST(SlotsToUse, CopiesOfASliceDoNotShareCores) {
  v1::Job job;
  job.set_ranks(64);
  v1::Inventory inventory;
  inventory.set_physical_cores(2);
  EXPECT_EQ(SlotsToUse(job, inventory, FirstSlots(64)), FirstSlots(64))
      << "the ranks of a plan need each other";
  job.set_fewer_ranks(true);
  EXPECT_EQ(SlotsToUse(job, inventory, FirstSlots(64)), FirstSlots(2));
  EXPECT_EQ(SlotsToUse(job, inventory, {1, 3, 4}), (std::vector<int>{1, 4})) << "1 and 3 are the same core";
  inventory.set_physical_cores(128);
  EXPECT_EQ(SlotsToUse(job, inventory, FirstSlots(64)), FirstSlots(64));
  inventory.set_physical_cores(0);  // unknown
  EXPECT_EQ(SlotsToUse(job, inventory, FirstSlots(64)), FirstSlots(64));
}

TEST(PinToGpus, RoundRobin) {
  EXPECT_EQ(PinToGpus(5, {"GPU-a", "GPU-b"}),
            (std::vector<std::string>{"GPU-a", "GPU-b", "GPU-a", "GPU-b", "GPU-a"}));
  EXPECT_TRUE(PinToGpus(3, {}).empty());
}

TEST(SlotsToUse, CopiesOfASliceDoNotShareGpus) {
  const FakeGpus fake(EqualGpus(2));
  v1::Inventory inventory = LocalInventory(ListGpus(), 8);
  inventory.set_physical_cores(64);
  v1::Job job;
  job.set_ranks(8);
  job.set_device("cuda");
  EXPECT_EQ(SlotsToUse(job, inventory, FirstSlots(8)), FirstSlots(8));
  job.set_fewer_ranks(true);
  EXPECT_EQ(SlotsToUse(job, inventory, FirstSlots(8)), FirstSlots(2));
}

}  // namespace
}  // namespace autocfg::worker
