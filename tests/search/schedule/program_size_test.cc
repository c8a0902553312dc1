#include <gtest/gtest.h>

#include "search/schedule/program.h"

namespace autocfg {
namespace {

TEST(ProgramSize, BoundIsOverAllRanks) {
  const ParallelPlan plan{{.tp = 2, .pp = 2, .dp = 2}, {.micro_batch = 4}};
  const std::int64_t most = kMaxProgramMicrobatches / 8 * plan.dp * plan.micro_batch;
  const auto check = [&](std::int64_t global_batch) {
    return CheckProgramSize({global_batch, 16, *ParsePrecision("fp32")}, plan);
  };
  EXPECT_TRUE(check(8).ok());
  EXPECT_TRUE(check(most).ok());
  const auto status = check(most + 8);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("8 ranks, but"), std::string::npos) << status;
}

TEST(ProgramSize, VirtualStagesCount) {
  const ParallelPlan plan{{.pp = 8}, {}, {.virtual_stages = 4, .schedule = Schedule::kInterleaved}};
  const std::int64_t most = kMaxProgramMicrobatches / 8 / 4;
  EXPECT_TRUE(CheckProgramSize({most, 16, {}}, plan).ok());
  const auto status = CheckProgramSize({most + 8, 16, {}}, plan);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("8 ranks x 4 virtual stages, but"), std::string::npos) << status;
}

}  // namespace
}  // namespace autocfg
