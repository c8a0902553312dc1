#include "search/plan/cluster/memory_margin.h"

#include <limits>

#include "gtest/gtest.h"

namespace autocfg {
namespace {

TEST(MemoryMargin, DefaultsToFivePercentExceptOnThisMachine) {
  ClusterSpec cluster;
  EXPECT_EQ(DefaultMemoryMargin(cluster), 0.05);
  cluster.local = true;
  EXPECT_EQ(DefaultMemoryMargin(cluster), 0) << "its capacity is 80% of the limit already";
}

TEST(MemoryMargin, UsableBytesAreRoundedDown) {
  EXPECT_EQ(UsableBytes(1000, 0.05), 950);
  EXPECT_EQ(UsableBytes(1001, 0.5), 500);
  EXPECT_EQ(UsableBytes(85'899'345'920, 0), 85'899'345'920);
  constexpr std::int64_t kHuge = (std::int64_t{1} << 60) + 1;  // no double has this value
  EXPECT_EQ(UsableBytes(kHuge, 0), kHuge);
  EXPECT_EQ(UsableBytes(0, 0.05), 0);
}

TEST(MemoryMargin, IsAFractionBelowOne) {
  for (const double good : {0.0, 0.05, 0.999}) EXPECT_TRUE(CheckMemoryMargin(good).ok()) << good;
  for (const double bad :
       {-0.01, 1.0, 5.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const absl::Status status = CheckMemoryMargin(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find("memory_margin is "), std::string::npos) << status;
  }
}

TEST(MemoryMargin, IsPrintedInPercent) {
  EXPECT_EQ(MarginText(0.05), "5%");
  EXPECT_EQ(MarginText(0.07), "7%");
  EXPECT_EQ(MarginText(0.125), "12.5%");
}

}  // namespace
}  // namespace autocfg
