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
  lease.mutable_job()->set_trace_parent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const base::LogFields fields = FieldsOfLease(lease, "workers/a");
  EXPECT_EQ(fields.trial, "studies/3/trials/7");
  EXPECT_EQ(fields.worker, "workers/a");
  EXPECT_EQ(fields.lease, "lease-1");
  EXPECT_EQ(fields.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
  lease.mutable_job()->set_trace_parent("00-forged\n");
  EXPECT_EQ(FieldsOfLease(lease, "workers/a").trace, "");
}

}  // namespace
}  // namespace autocfg
