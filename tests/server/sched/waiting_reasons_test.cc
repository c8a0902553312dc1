#include "server/sched/waiting_reasons.h"

#include "gmock/gmock.h"

namespace autocfg::server {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Why = WaitingStudy::Why;

const SteadyTime kFirstReading = SteadyNow();

TEST(WaitingReasons, BusyWorkersAreNamedOnceTheSameJobWaitsTwice) {
  WaitingReasons reasons;
  EXPECT_THAT(reasons.Update({{{1, 5}, Why::kBusy, "busy"}, {{2, 1}, Why::kNobody, "nobody"}}, kFirstReading),
              ElementsAre(2));
  EXPECT_EQ(reasons.Find(1), "") << "it may be about to start";
  EXPECT_EQ(reasons.Find(2), "nobody");
  EXPECT_EQ(reasons.Find(3), "");
  EXPECT_TRUE(reasons.unsettled());
  EXPECT_THAT(reasons.Update({{{1, 6}, Why::kBusy, "busy"}}, kFirstReading + seconds(1)), ElementsAre(2));
  EXPECT_EQ(reasons.Find(1), "") << "another job of it";
  EXPECT_THAT(reasons.Update({{{1, 6}, Why::kKept, "kept"}}, kFirstReading + seconds(2)), ElementsAre(1));
  EXPECT_EQ(reasons.Find(1), "kept");
  EXPECT_FALSE(reasons.unsettled());
  EXPECT_THAT(reasons.Update({{{1, 6}, Why::kBusy, "busy"}}, kFirstReading + seconds(3)), ElementsAre(1));
  EXPECT_EQ(reasons.Find(1), "busy") << "another kind is said at once";
  EXPECT_TRUE(reasons.Started(1));
  EXPECT_FALSE(reasons.Started(1));
  EXPECT_EQ(reasons.Find(1), "");
}

TEST(WaitingReasons, NumbersChangeAtMostEveryTenSeconds) {
  WaitingReasons reasons;
  reasons.Update({{{1, 1}, Why::kBusy, "0 are free"}}, kFirstReading);
  reasons.Update({{{1, 1}, Why::kBusy, "1 is free"}}, kFirstReading + seconds(1));
  EXPECT_EQ(reasons.Find(1), "1 is free");
  EXPECT_THAT(reasons.Update({{{1, 1}, Why::kBusy, "2 are free"}}, kFirstReading + seconds(2)), IsEmpty());
  EXPECT_EQ(reasons.Find(1), "1 is free");
  EXPECT_TRUE(reasons.unsettled()) << "it must be read again";
  EXPECT_THAT(reasons.Update({{{1, 1}, Why::kBusy, "2 are free"}}, kFirstReading + seconds(11)),
              ElementsAre(1));
  EXPECT_EQ(reasons.Find(1), "2 are free");
  EXPECT_FALSE(reasons.unsettled());
  EXPECT_THAT(reasons.Update({}, kFirstReading + seconds(12)), ElementsAre(1));
  EXPECT_EQ(reasons.Find(1), "");
}

}  // namespace
}  // namespace autocfg::server
