#include "worker/launcher/awake_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace autocfg::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(AwakeClock, LeavesOutWhatALoopSleptThrough) {
  const AwakeClock::Clock::time_point begin{};
  AwakeClock clock(begin);
  clock.Tick(begin + milliseconds(1500));  // a slow round
  EXPECT_EQ(clock.now(begin + milliseconds(1600)) - begin, milliseconds(1600));
  clock.Tick(begin + seconds(40));  // suspended
  EXPECT_EQ(clock.now(begin + seconds(41)) - begin, milliseconds(1500) + seconds(1));
  clock.Tick(begin + seconds(41));
  clock.Tick(begin + seconds(50));
  EXPECT_EQ(clock.now(begin + seconds(50)) - begin, milliseconds(1500) + seconds(1));
}

}  // namespace
}  // namespace autocfg::worker
