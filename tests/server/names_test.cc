#include "server/names/names.h"

#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

TEST(ResourceNames, ParseWhatTheyFormat) {
  EXPECT_EQ(*ParseStudyName(StudyName(7)), 7);
  const auto trial = ParseTrialName(TrialName(7, 12));
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ(trial->study, 7);
  EXPECT_EQ(trial->number, 12);
  for (const char* bad : {"", "studies/", "studies/0", "studies/07", "studies/-1", "studies/1x", "study/1"})
    EXPECT_EQ(ParseStudyName(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  for (const std::string& bad : {StudyName(7), CalibrationName(7), std::string("studies/7/trials/0")})
    EXPECT_EQ(ParseTrialName(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  for (const std::int64_t number : {0, 12}) {
    const auto job = ParseJobName(JobName(7, number));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->study, 7);
    EXPECT_EQ(job->number, number) << "0: the calibration";
  }
  EXPECT_EQ(JobName(7, 0), CalibrationName(7));
  for (const char* bad : {"calibration", "/calibration", "studies/0/calibration", "studies/7/trials/0",
                          "studies/7/trials/1/calibration", "studies/7/calibration/calibration"})
    EXPECT_EQ(ParseJobName(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  EXPECT_TRUE(CheckWorkerName("workers/a-B_1.c").ok());
  for (const std::string& bad : {std::string("workers/"), std::string("workers/a b"), std::string("a"),
                                 "workers/" + std::string(101, 'x')})
    EXPECT_EQ(CheckWorkerName(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
}

}  // namespace
}  // namespace autocfg::server
