// Tests the sizes in device memory against figures computed by hand.
#include "search/ops/memory_sizes.h"

#include "gtest/gtest.h"

namespace autocfg {
namespace {

TEST(MemorySizes, TensorsAreRoundedUpTo64Bytes) {
  EXPECT_EQ(AlignedBytes(0), 0);
  EXPECT_EQ(AlignedBytes(1), 64);
  EXPECT_EQ(AlignedBytes(64), 64);
  EXPECT_EQ(AlignedBytes(65), 128);
  EXPECT_EQ(AlignedBytes(std::int64_t{1} << 40), std::int64_t{1} << 40);
  // The largest argument.
  EXPECT_EQ(AlignedBytes(9'223'372'036'854'775'744), 9'223'372'036'854'775'744);
}

// Two blocks of min(S, 128) rows of S scores, and a row of S.
TEST(MemorySizes, AttentionWorkspace) {
  EXPECT_EQ(AttentionWorkspaceElements(1, 64), 3);
  EXPECT_EQ(AttentionWorkspaceElements(32, 64), 2'080);
  EXPECT_EQ(AttentionWorkspaceElements(127, 64), 32'385);
  EXPECT_EQ(AttentionWorkspaceElements(128, 64), 32'896);
  EXPECT_EQ(AttentionWorkspaceElements(129, 64), 33'153);
  EXPECT_EQ(AttentionWorkspaceElements(2048, 128), 526'336);
  EXPECT_EQ(AttentionWorkspaceElements(2048, 64), 526'336) << "independent of the head dimension";
}

TEST(MemorySizes, StagingIsOneMebibyte) { EXPECT_EQ(kCollectiveStagingBytes, 1'048'576); }

// The loss and the squared gradient norm (docs/engine.md, "Workspace").
TEST(MemorySizes, AStepHasTwoScalars) { EXPECT_EQ(kStepScalars, 2); }

}  // namespace
}  // namespace autocfg
