// Fixtures: coordinators whose services are tested.
#pragma once

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {

// A coordinator without studies.
class StudyServiceTest : public CoordinatorFixture {
 protected:
  void SetUp() override { Open(); }

  // Expects that the study is not created and that the one-line error contains `words`.
  void ExpectRefused(const v1::SearchSpec& spec, grpc::StatusCode code, const std::string& words) {
    const grpc::Status status = CreateStatus(spec);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), testing::HasSubstr(words));
    EXPECT_THAT(status.error_message(), testing::Not(testing::HasSubstr("\n")));
  }
};

// A coordinator with a running study, and the calls of its workers.
class WorkerServiceTest : public CoordinatorFixture {
 protected:
  using Stub = v1::WorkerService::Stub;

  void SetUp() override {
    Open();
    study_ = Create(SmallSpec()).name();
    ASSERT_TRUE(Start(study_).ok());
  }

  grpc::Status Register(const std::string& worker, const std::string& boot, int slots, std::int64_t* epoch) {
    v1::RegisterWorkerRequest request;
    request.set_worker(worker);
    request.set_boot_id(boot);
    request.mutable_inventory()->set_slots(slots);
    request.mutable_inventory()->set_device_kind("cpu");
    v1::RegisterWorkerResponse response;
    grpc::Status status = Call(workers_, &Stub::RegisterWorker, request, &response);
    *epoch = response.session_epoch();
    if (status.ok()) {
      EXPECT_EQ(response.lease_duration_s(), 10);
    }
    return status;
  }
  v1::LeaseWorkResponse Lease(const std::string& worker, std::int64_t epoch, double wait_s = 10) {
    v1::LeaseWorkRequest request;
    request.set_worker(worker);
    request.set_session_epoch(epoch);
    request.set_wait_s(wait_s);
    v1::LeaseWorkResponse response;
    const grpc::Status status = Call(workers_, &Stub::LeaseWork, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::ReportTrialRequest ReportOf(const v1::LeaseWorkResponse& lease, std::int64_t epoch,
                                  const std::string& request_id) {
    v1::ReportTrialRequest report = FakeWorker::ByFormula(lease.job());
    report.set_worker("workers/a");
    report.set_session_epoch(epoch);
    report.set_lease_id(lease.lease_id());
    report.set_fencing_token(lease.fencing_token());
    report.set_attempt(lease.job().attempt());
    report.set_request_id(request_id);
    return report;
  }
  grpc::Status Send(const v1::ReportTrialRequest& report) {
    v1::ReportTrialResponse response;
    return Call(workers_, &Stub::ReportTrial, report, &response);
  }

  std::string study_;
};

}  // namespace autocfg::server
