#include "server/store/report_fit.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

v1::OpDesc Op(const std::string& kind, int size) {
  v1::OpDesc op;
  op.set_kind(kind);
  op.add_dims(size);
  return op;
}

// Expects a rejection in one line and returns its message.
std::string Refusal(const v1::Job& asked, const v1::ReportTrialRequest& report) {
  const absl::Status status = CheckFits(asked, report);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  return std::string(status.message());
}

TEST(ReportFit, MeasurementHasATimeForEachTimedStep) {
  v1::Job job;
  job.mutable_train()->set_steps(5);
  job.mutable_train()->set_warmup_steps_untimed(2);
  v1::ReportTrialRequest report;
  EXPECT_THAT(Refusal(job, report), HasSubstr("measurement is missing"));
  report.mutable_calibration();
  EXPECT_THAT(Refusal(job, report), HasSubstr("measurement is missing"));
  report.mutable_measurement();
  EXPECT_THAT(Refusal(job, report), HasSubstr("step_time_s is empty"));
  for (int times = 1; times <= 6; ++times) {
    report.mutable_measurement()->add_step_time_s(0.5);
    if (times == 3) {
      EXPECT_TRUE(CheckFits(job, report).ok()) << CheckFits(job, report);
    } else {
      EXPECT_THAT(Refusal(job, report), HasSubstr("but the job times 3 steps")) << times;
    }
  }
}

TEST(ReportFit, SliceMustMatchTheJob) {
  v1::Job job;
  job.mutable_train()->set_steps(1);
  v1::ReportTrialRequest report;
  report.mutable_measurement()->add_step_time_s(0.5);
  report.mutable_measurement()->set_slice(true);
  EXPECT_EQ(Refusal(job, report), "measurement.slice is true, but the job runs all ranks of the plan");
  job.mutable_train()->mutable_slice();
  EXPECT_TRUE(CheckFits(job, report).ok());
  report.mutable_measurement()->set_slice(false);
  EXPECT_EQ(Refusal(job, report), "measurement.slice is false, but the job runs one rank of the plan alone");
}

TEST(ReportFit, CalibrationHasEachOpOnceInAnyOrder) {
  v1::Job job;
  for (const int size : {1, 2, 3}) *job.mutable_calibrate()->add_ops() = Op("gelu", size);
  v1::ReportTrialRequest report;
  report.mutable_measurement()->add_step_time_s(0.5);
  EXPECT_THAT(Refusal(job, report), HasSubstr("calibration is missing"));
  report.mutable_calibration();
  EXPECT_EQ(Refusal(job, report), "calibration.ops lacks 3 of the 3 ops that the job asks for");
  for (const int size : {3, 1}) *report.mutable_calibration()->add_ops()->mutable_op() = Op("gelu", size);
  EXPECT_EQ(Refusal(job, report), "calibration.ops lacks 1 of the 3 ops that the job asks for");
  const v1::CalibrateResult two = report.calibration();
  for (const v1::OpDesc& wrong : {Op("gelu", 3), Op("gelu", 4), Op("frob\n\x1b[2J", 2)}) {
    *report.mutable_calibration() = two;
    *report.mutable_calibration()->add_ops()->mutable_op() = wrong;
    EXPECT_THAT(Refusal(job, report), HasSubstr("is a duplicate, or the job does not ask for it"));
  }
  *report.mutable_calibration() = two;
  *report.mutable_calibration()->add_ops()->mutable_op() = Op("gelu", 2);
  EXPECT_TRUE(CheckFits(job, report).ok()) << CheckFits(job, report);
}

}  // namespace
}  // namespace autocfg::server
