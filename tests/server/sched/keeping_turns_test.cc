#include "server/sched/keeping_turns.h"

#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

constexpr JobKey kLarge{1, 1};

Assignment Waits(const JobKey& job, double until_s) {
  Assignment assignment;
  assignment.waits = WaitingJob{job, until_s};
  return assignment;
}

TEST(KeepingTurns, JobKeepsWorkersUntilTheLimitsAndIsPassedForAsLong) {
  KeepingTurns turns;
  EXPECT_TRUE(turns.Keeps(100));
  turns.Assigned(Waits(kLarge, 150), 100);
  for (double now_s = 101; now_s < 150; ++now_s) {
    EXPECT_TRUE(turns.Keeps(now_s)) << now_s;
    turns.Assigned(Waits(kLarge, now_s + 500), now_s);  // jobs that start meanwhile prolong nothing
  }
  for (double now_s = 150; now_s < 200; ++now_s) {
    EXPECT_FALSE(turns.Keeps(now_s)) << now_s;
    turns.Assigned(Waits(kLarge, now_s + 500), now_s);
  }
  EXPECT_TRUE(turns.Keeps(200)) << "its turn again";
  turns.Assigned(Waits(kLarge, 230), 200);
  EXPECT_TRUE(turns.Keeps(229));
  EXPECT_FALSE(turns.Keeps(230));
  EXPECT_FALSE(turns.Keeps(259));
  EXPECT_TRUE(turns.Keeps(260));
}

TEST(KeepingTurns, StartOfTheJobEndsItsTurn) {
  for (const double started_s : {120.0, 170.0}) {  // while it kept workers; while others passed
    KeepingTurns turns;
    turns.Assigned(Waits(kLarge, 150), 100);
    turns.Keeps(started_s);
    Assignment start = Waits({2, 1}, 400);
    start.leases.emplace_back().key = kLarge;
    turns.Assigned(start, started_s);
    EXPECT_TRUE(turns.Keeps(399)) << "the next one has a turn of its own";
    EXPECT_FALSE(turns.Keeps(400));
  }
}

TEST(KeepingTurns, CancelledJobsDoNotProlongATurn) {
  KeepingTurns turns;
  turns.Assigned(Waits(kLarge, 150), 100);
  for (std::int64_t trial = 2; trial < 40; ++trial) {
    const double now_s = 100 + static_cast<double>(trial);
    EXPECT_TRUE(turns.Keeps(now_s));
    turns.Assigned(Waits({1, trial}, now_s + 50), now_s);
  }
  EXPECT_FALSE(turns.Keeps(150));
}

TEST(KeepingTurns, NothingWaitsNothingChanges) {
  KeepingTurns turns;
  turns.Assigned({}, 100);
  EXPECT_TRUE(turns.Keeps(1e9));
}

}  // namespace
}  // namespace autocfg::server
