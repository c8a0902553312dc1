#include "server/sched/presence.h"

#include "gmock/gmock.h"

namespace autocfg::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const WorkerSession kA{"workers/a", 1};
const WorkerSession kB{"workers/b", 1};
const SteadyTime kBegin = SteadyNow();

SteadyTime After(double seconds) { return kBegin + absl::ToChronoNanoseconds(absl::Seconds(seconds)); }

TEST(Presence, OnlyPollsAndRenewalsShowThatAWorkerTakesJobs) {
  Presence presence(10, absl::Seconds(1));
  for (double now_s = 100; now_s < 200; ++now_s) {
    presence.Heard(kA, now_s);
    EXPECT_THAT(presence.AtWork(now_s), IsEmpty());
  }
  EXPECT_FALSE(presence.Find("workers/a", 205).silent) << "it is there";
  presence.Works(kA, 200);
  presence.Parked(kA);
  EXPECT_THAT(presence.AtWork(1000), ElementsAre(kA)) << "while its call is parked";
  presence.Unparked(kA, /*broke=*/false, 1000, kBegin);
  EXPECT_THAT(presence.AtWork(1009), ElementsAre(kA));
  presence.Heard(kA, 1009);
  EXPECT_THAT(presence.AtWork(1010), IsEmpty()) << "for a lease duration";
}

TEST(Presence, AWorkerIsQuietWithoutAParkedCall) {
  Presence presence(10, absl::Seconds(1));
  EXPECT_EQ(presence.QuietFor("workers/a", 500), 0) << "nobody knows it";
  presence.Note(kA, 90);
  EXPECT_EQ(presence.QuietFor("workers/a", 100), 10);
  presence.Heard(kA, 100);
  EXPECT_EQ(presence.QuietFor("workers/a", 104), 4);
  presence.Works(kA, 104);
  presence.Parked(kA);
  EXPECT_EQ(presence.QuietFor("workers/a", 1000), 0);
  presence.Unparked(kA, /*broke=*/true, 1000, kBegin);
  EXPECT_EQ(presence.QuietFor("workers/a", 1007), 7);
}

TEST(Presence, NewWorkerCountsUntilItHadTimeToAskForWork) {
  Presence presence(10, absl::Seconds(1));
  presence.Heard(kA, 100);
  EXPECT_TRUE(presence.Find("workers/a", 100).takes_jobs);
  EXPECT_TRUE(presence.Find("workers/a", 104).takes_jobs);
  // Registers again, with a new session each time, but never asks for work.
  for (std::int64_t session = 2; session < 30; ++session)
    presence.Heard({"workers/a", session}, 99 + static_cast<double>(session));
  EXPECT_FALSE(presence.Find("workers/a", 128).silent);
  EXPECT_FALSE(presence.Find("workers/a", 128).takes_jobs);
  const WorkerSession last{"workers/a", 30};
  presence.Heard(last, 130);
  presence.Works(last, 130);
  EXPECT_TRUE(presence.Find("workers/a", 139).takes_jobs) << "it asked for work";
  EXPECT_FALSE(presence.Find("workers/a", 140).takes_jobs);
  presence.Heard({"workers/a", 31}, 141);
  EXPECT_TRUE(presence.Find("workers/a", 141).takes_jobs) << "a worker that took jobs has started again";
  EXPECT_FALSE(presence.Find("workers/a", 146).takes_jobs);
  EXPECT_FALSE(presence.Find("workers/b", 146).takes_jobs);
}

TEST(Presence, WorkerOfTheStoreIsNewOnceItIsHeardOf) {
  Presence presence(10, absl::Seconds(1));
  presence.Note(kA, 100);
  EXPECT_FALSE(presence.Find("workers/a", 101).takes_jobs);
  presence.Heard(kA, 110);
  presence.Heard(kA, 113);
  EXPECT_TRUE(presence.Find("workers/a", 114).takes_jobs);
  presence.Excuse(/*late_s=*/60, 174, After(74));
  EXPECT_TRUE(presence.Find("workers/a", 174).takes_jobs) << "it could not ask while the coordinator paused";
  EXPECT_FALSE(presence.Find("workers/a", 176).takes_jobs);
}

TEST(Presence, LostSessionIsNotAtWork) {
  Presence presence(10, absl::Seconds(1));
  presence.Heard(kA, 100);
  presence.Works(kA, 100);
  presence.Parked(kA);
  presence.Unparked(kA, /*broke=*/true, 101, After(1));
  EXPECT_THAT(presence.AtWork(101), ElementsAre(kA));
  EXPECT_THAT(presence.TakeLost(After(1.5)), IsEmpty());
  EXPECT_THAT(presence.TakeLost(After(2)), ElementsAre(kA));
  EXPECT_THAT(presence.AtWork(102), IsEmpty());
}

TEST(Presence, PauseOfTheCoordinatorIsNotHeldAgainstWorkers) {
  Presence presence(10, absl::Seconds(1));
  presence.Heard(kA, 80);  // was silent before the pause, which begins at 100
  presence.Heard(kB, 95);
  presence.Works(kB, 95);
  presence.Parked(kB);
  presence.Unparked(kB, /*broke=*/true, 130, After(30));
  EXPECT_THAT(presence.TakeSilent(99), ElementsAre(kA));
  presence.Excuse(30, 130, After(30));
  EXPECT_THAT(presence.TakeSilent(131), IsEmpty());
  EXPECT_TRUE(presence.Find("workers/a", 131).silent) << "a pause does not bring it back";
  EXPECT_FALSE(presence.Find("workers/b", 140).silent);
  EXPECT_EQ(presence.Find("workers/b", 140).last_s, 95) << "when it was heard stays true";
  EXPECT_THAT(presence.AtWork(131), ElementsAre(kB));
  EXPECT_THAT(presence.TakeLost(After(39)), IsEmpty()) << "its connection broke because nobody answered";
  presence.Heard(kA, 133);
  presence.Works(kA, 133);
  presence.Parked(kA);
  presence.Unparked(kA, /*broke=*/true, 134, After(34));
  EXPECT_THAT(presence.TakeLost(After(39)), IsEmpty()) << "breaks are noticed late";
  EXPECT_THAT(presence.TakeLost(After(40)), ElementsAre(kA, kB));
  EXPECT_THAT(presence.TakeSilent(141), ElementsAre(kB));
  EXPECT_THAT(presence.TakeAbandoned(130 + 3600, 3600), IsEmpty());
  EXPECT_THAT(presence.TakeAbandoned(131 + 3600, 3600), ElementsAre(kB));
}

}  // namespace
}  // namespace autocfg::server
