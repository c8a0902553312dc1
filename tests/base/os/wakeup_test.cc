#include "base/os/wakeup.h"

#include <gtest/gtest.h>

#include <thread>

namespace autocfg::base {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::minutes kLong{1};  // longer than any of these tests may take

TEST(Wakeup, SignalBeforeTheWaitIsNotMissedAndCountsOnce) {
  Wakeup wakeup;
  wakeup.Set();
  wakeup.Set();
  EXPECT_TRUE(wakeup.Wait(kLong));
  EXPECT_FALSE(wakeup.Wait(std::chrono::milliseconds(1)));
}

TEST(Wakeup, SignalEndsAWait) {
  Wakeup wakeup;
  std::thread sets([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    wakeup.Set();
  });
  EXPECT_TRUE(wakeup.Wait(std::chrono::hours(1'000'000)));
  sets.join();
}

TEST(Wakeup, WaitEndsAfterItsLimit) {
  Wakeup wakeup;
  const auto before = Steady::now();
  EXPECT_FALSE(wakeup.Wait(std::chrono::milliseconds(30)));
  EXPECT_GE(Steady::now() - before, std::chrono::milliseconds(30));
  EXPECT_FALSE(wakeup.Wait(std::chrono::seconds(-1)));
}

}  // namespace
}  // namespace autocfg::base
