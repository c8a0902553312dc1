#include "server/store/turns/fair_share.h"

#include <limits>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

constexpr double kNow = 1.76e9;

TEST(FairShare, UseHalvesInADay) {
  const double use = AddUse(kNoUse, 100, kNow);
  EXPECT_NEAR(RankSecondsOf(use, kNow), 100, 1e-6);
  EXPECT_NEAR(RankSecondsOf(use, kNow + kUseHalfLifeSeconds), 50, 1e-6);
  EXPECT_NEAR(RankSecondsOf(AddUse(use, 30, kNow + kUseHalfLifeSeconds), kNow + 2 * kUseHalfLifeSeconds), 40,
              1e-6);
  EXPECT_EQ(RankSecondsOf(kNoUse, kNow), 0);
}

TEST(FairShare, UsesCompareAtAnyTime) {
  // 100 s of two days ago are less than 30 s of now, and remain so.
  const double old = AddUse(kNoUse, 100, kNow), recent = AddUse(kNoUse, 30, kNow + 2 * kUseHalfLifeSeconds);
  EXPECT_LT(old, recent);
  EXPECT_GT(AddUse(kNoUse, 130, kNow), recent);
}

TEST(FairShare, NothingAddedChangesNothing) {
  EXPECT_EQ(AddUse(kNoUse, 0, kNow), kNoUse);
  EXPECT_EQ(AddUse(kNoUse, -5, kNow), kNoUse) << "a clock that was set back";
  const double use = AddUse(kNoUse, 7, kNow);
  EXPECT_NEAR(AddUse(use, 0, kNow + 1000), use, 1e-9);
}

TEST(FairShare, UseForAnotherWeight) {
  const double use = AddUse(kNoUse, 100, kNow);
  EXPECT_NEAR(RankSecondsOf(ForNewWeight(use, 1, 4), kNow), 25, 1e-6);
  EXPECT_NEAR(ForNewWeight(ForNewWeight(use, 1, 3), 3, 1), use, 1e-9);
  EXPECT_EQ(ForNewWeight(kNoUse, 100, 0.01), kNoUse);
}

TEST(FairShare, WeightIsANumberInRange) {
  EXPECT_TRUE(CheckWeight(0.01).ok());
  EXPECT_TRUE(CheckWeight(100).ok());
  for (const double weight : {0.0, -1.0, 100.5, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(std::string(CheckWeight(weight).message()),
                testing::HasSubstr("give a number from 0.01 to 100"));
  }
}

TEST(FairShare, PassedOwnersComeFirstThenThoseWhoUsedLess) {
  const OwnerPlace passed_long{.passed = true, .started_s = 1, .use = 9, .study = 9, .owner = "a"};
  const OwnerPlace passed{.passed = true, .started_s = 2, .use = 1, .study = 1, .owner = "b"};
  const OwnerPlace little{.passed = false, .started_s = 9, .use = 2, .study = 8, .owner = "c"};
  const OwnerPlace much{.passed = false, .started_s = 3, .use = 3, .study = 4, .owner = "d"};
  const OwnerPlace younger{.passed = false, .started_s = 3, .use = 3, .study = 5, .owner = "d"};
  const std::set<OwnerPlace> places = {younger, much, little, passed, passed_long};
  std::string owners;
  for (const OwnerPlace& place : places) owners += place.owner + std::to_string(place.study) + " ";
  EXPECT_EQ(owners, "a9 b1 c8 d4 d5 ");
}

}  // namespace
}  // namespace autocfg::server
