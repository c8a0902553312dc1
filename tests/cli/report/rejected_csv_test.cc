#include "cli/report/rejected_csv.h"

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "tests/cli/program.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

v1::RejectedPlan Rejected(const std::string& plan, const std::string& reason, const std::string& detail) {
  v1::RejectedPlan rejected;
  *rejected.mutable_plan() = ToProto(*ParsePlanText(plan));
  rejected.set_reason(reason);
  rejected.set_detail(detail);
  return rejected;
}

std::vector<std::string> Lines(const std::string& path) {
  std::istringstream text(ReadWhole(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(RejectedCsv, HasARowForEachPlan) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "rejected.csv";
  RejectedCsv file(path);
  ASSERT_TRUE(file.Open().ok());
  v1::RejectedPlans message;
  *message.add_plans() =
      Rejected("tp=2,pp=2,split=7+5,zero=1,dp=4", "out_of_memory", "needs 5, and 4 are \"there\"");
  *message.add_plans() = Rejected("tp=7", "heads_not_divisible", "12 heads");
  ASSERT_TRUE(file.Add(message).ok());
  EXPECT_FALSE(std::filesystem::exists(path)) << "it is put in place when it is whole";
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(Lines(path),
            (std::vector<std::string>{
                "tp,pp,dp,micro_batch,virtual_stages,schedule,split,recompute,attention,sequence_parallel,"
                "zero_stage,dp_shard,tp_overlap,grad_overlap,param_overlap,p2p_overlap,scatter_gather,reason,"
                "detail",
                "2,2,4,1,1,1f1b,7+5,none,fused,0,1,4,1,0,0,0,0,out_of_memory,\"needs 5, and 4 are "
                "\"\"there\"\"\"",
                "7,1,1,1,1,1f1b,even,none,fused,0,0,1,1,0,0,0,0,heads_not_divisible,12 heads"}));
  EXPECT_EQ(file.LeftOut(), "");
}

TEST(RejectedCsv, SaysWhatIsLeftOut) {
  const ScratchDirectory scratch;
  RejectedCsv file(scratch / "rejected.csv");
  ASSERT_TRUE(file.Open().ok());
  v1::RejectedPlans message;
  for (int i = 0; i < 2000; ++i) *message.add_plans() = Rejected("tp=7", "heads_not_divisible", "12 heads");
  ASSERT_TRUE(file.Add(message).ok());
  message.Clear();
  (*message.mutable_left_out())["out_of_memory"] = 300;
  (*message.mutable_left_out())["heads_not_divisible"] = 1000;
  ASSERT_TRUE(file.Add(message).ok());
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(Lines(scratch / "rejected.csv").size(), 2001u);
  EXPECT_EQ(file.LeftOut(), (scratch / "rejected.csv") +
                                " has 2,000 of 3,300 rejected plans; left out: heads_not_divisible 1,000, "
                                "out_of_memory 300");
}

TEST(RejectedCsv, NamesAFileThatCannotBeWritten) {
  RejectedCsv file(Missing("/nonexistent/rejected.csv"));
  const absl::Status status = file.Open();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr(Missing("/nonexistent/rejected.csv: cannot be written")));
}

}  // namespace
}  // namespace autocfg::cli
