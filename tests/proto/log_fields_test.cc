#include "proto/log_fields.h"

#include <gtest/gtest.h>

namespace autocfg {
namespace {

TEST(LogFieldsOf, JobsNameTheirStudyAndTrial) {
  EXPECT_EQ(FieldsOfJob("studies/3/trials/7").study, "studies/3");
  EXPECT_EQ(FieldsOfJob("studies/3/trials/7").trial, "studies/3/trials/7");
  EXPECT_EQ(FieldsOfJob("studies/3/calibration").study, "studies/3");
  EXPECT_EQ(FieldsOfJob("studies/3/calibration").trial, "");
  EXPECT_EQ(FieldsOfJob("studies/3").study, "studies/3");
  for (const char* other : {"", "x", "workers/a", "/studies/3"})
    EXPECT_EQ(FieldsOfJob(other).study, "") << other;
}

TEST(LogFieldsOf, LeasesNameTheirWorkerToo) {
  v1::LeaseWorkResponse lease;
  lease.set_lease_id("lease-1");
  lease.mutable_job()->set_name("studies/3/trials/7");
  const base::LogFields fields = FieldsOfLease(lease, "workers/a");
  EXPECT_EQ(fields.trial, "studies/3/trials/7");
  EXPECT_EQ(fields.worker, "workers/a");
  EXPECT_EQ(fields.lease, "lease-1");
}

}  // namespace
}  // namespace autocfg
