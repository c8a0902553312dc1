// WorkerService over the wire: malformed requests, sessions, late, duplicate and foreign reports, logs, the
// long poll.
#include <cmath>

#include "gmock/gmock.h"
#include "server/resource_names.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using Stub = v1::WorkerService::Stub;

class WorkerServiceTest : public CoordinatorFixture {
 protected:
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
    v1::RegisterWorkerResponse response;
    const grpc::Status status = Call(workers_, &Stub::RegisterWorker, request, &response);
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

TEST_F(WorkerServiceTest, MalformedRegistrationsAreInvalid) {
  std::int64_t epoch = 0;
  const StatusCode invalid = StatusCode::INVALID_ARGUMENT;
  for (const std::string name : {"", "a", "workers/", "workers/a b", "workers/a/b", "studies/1"}) {
    EXPECT_EQ(Register(name, "boot", 4, &epoch).error_code(), invalid) << name;
  }
  EXPECT_EQ(Register("workers/" + std::string(200, 'x'), "boot", 4, &epoch).error_code(), invalid);
  EXPECT_THAT(Register("workers/a", "", 4, &epoch).error_message(), HasSubstr("boot_id"));
  EXPECT_THAT(Register("workers/a", "boot", 0, &epoch).error_message(), HasSubstr("inventory.slots"));
  EXPECT_THAT(Register("workers/a", "boot", -3, &epoch).error_message(), HasSubstr("inventory.slots"));
  EXPECT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
}

TEST_F(WorkerServiceTest, LeasingNeedsASession) {
  v1::LeaseWorkRequest request;
  v1::LeaseWorkResponse response;
  EXPECT_EQ(Call(workers_, &Stub::LeaseWork, request, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  request.set_worker("workers/a");
  EXPECT_EQ(Call(workers_, &Stub::LeaseWork, request, &response).error_code(), StatusCode::NOT_FOUND);
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  request.set_session_epoch(epoch);
  for (const double wait : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    request.set_wait_s(wait);
    EXPECT_EQ(Call(workers_, &Stub::LeaseWork, request, &response).error_code(),
              StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(WorkerServiceTest, AWorkerWithTooFewSlotsGetsNothing) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 3, &epoch).ok());
  EXPECT_FALSE(Lease("workers/a", epoch, 0.1).has_job());
}

TEST_F(WorkerServiceTest, TheLongPollAnswersAsSoonAsThereIsWork) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse calibration = Lease("workers/a", epoch);
  ASSERT_TRUE(calibration.job().has_calibrate());
  EXPECT_FALSE(Lease("workers/a", epoch, 0).has_job());
  v1::LeaseWorkResponse next;
  std::thread polling([&] { next = Lease("workers/a", epoch, 15); });
  EXPECT_TRUE(Send(ReportOf(calibration, epoch, "r1")).ok());
  polling.join();
  EXPECT_TRUE(next.job().has_train());
  EXPECT_EQ(next.job().attempt(), 1);
  EXPECT_GT(next.fencing_token(), calibration.fencing_token());
}

TEST_F(WorkerServiceTest, DuplicateLateAndForeignReportsHurtNobody) {
  std::int64_t epoch = 0;
  std::int64_t other = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  ASSERT_TRUE(Register("workers/b", "boot", 4, &other).ok());
  const v1::LeaseWorkResponse calibration = Lease("workers/a", epoch);
  const v1::ReportTrialRequest good = ReportOf(calibration, epoch, "r1");
  v1::ReportTrialRequest foreign = good;
  foreign.set_request_id("f1");
  foreign.set_worker("workers/b");
  foreign.set_session_epoch(other);
  EXPECT_EQ(Send(foreign).error_code(), StatusCode::FAILED_PRECONDITION);
  v1::ReportTrialRequest forged = good;
  forged.set_request_id("f2");
  forged.set_fencing_token(good.fencing_token() + 1);
  EXPECT_EQ(Send(forged).error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Send(good).ok());
  EXPECT_TRUE(Send(good).ok());  // the same request
  v1::ReportTrialRequest duplicate = good;
  duplicate.set_request_id("r2");
  EXPECT_EQ(Send(duplicate).error_code(), StatusCode::FAILED_PRECONDITION);

  // A trial whose worker was started anew: the report of its former life comes late.
  const v1::LeaseWorkResponse trial = Lease("workers/a", epoch);
  std::int64_t reborn = 0;
  ASSERT_TRUE(Register("workers/a", "boot2", 4, &reborn).ok());
  const v1::LeaseWorkResponse again = Lease("workers/a", reborn);
  EXPECT_EQ(again.job().name(), trial.job().name());
  EXPECT_EQ(again.job().attempt(), 2);
  EXPECT_EQ(Send(ReportOf(trial, epoch, "late")).error_code(), StatusCode::FAILED_PRECONDITION);
  v1::GetTrialRequest get;
  get.set_name(trial.job().name());
  v1::Trial state;
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::GetTrial, get, &state).ok());
  EXPECT_EQ(state.state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(Send(ReportOf(again, reborn, "good")).ok());
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::GetTrial, get, &state).ok());
  EXPECT_EQ(state.state(), v1::TRIAL_STATE_MEASURED);
}

TEST_F(WorkerServiceTest, MalformedReportsNameTheFieldAndLeaveTheLease) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::ReportTrialRequest good = ReportOf(Lease("workers/a", epoch), epoch, "r");
  const auto refused = [&](const std::function<void(v1::ReportTrialRequest&)>& edit,
                           const std::string& field) {
    v1::ReportTrialRequest bad = good;
    edit(bad);
    const grpc::Status status = Send(bad);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_THAT(status.error_message(), HasSubstr(field));
  };
  refused([](auto& r) { r.clear_worker(); }, "worker");
  refused([](auto& r) { r.clear_lease_id(); }, "lease_id");
  refused([](auto& r) { r.clear_request_id(); }, "request_id");
  refused([](auto& r) { r.clear_outcome(); }, "outcome");
  refused([](auto& r) { r.set_outcome(static_cast<v1::Outcome>(77)); }, "outcome");
  refused([](auto& r) { r.clear_calibration(); }, "calibration");
  refused([](auto& r) { r.clear_calibration(), r.clear_measurement(); }, "measurement");
  refused([](auto& r) { r.mutable_calibration()->mutable_ops(0)->set_seconds(-1); }, "calibration.ops");
  refused([](auto& r) { r.mutable_calibration()->mutable_ops(0)->set_seconds(std::nan("")); },
          "calibration.ops");
  refused([](auto& r) { r.mutable_measurement()->set_device_s(-1); }, "device_s");
  refused([](auto& r) { r.mutable_measurement()->set_device_overhead_bytes(-1); }, "device_overhead_bytes");
  refused([](auto& r) { r.mutable_measurement()->set_peak_memory_bytes(-1); }, "peak_memory_bytes");
  refused([](auto& r) { r.mutable_measurement()->add_step_time_s(0); }, "step_time_s");
  refused([](auto& r) { r.mutable_measurement()->add_step_time_s(std::numeric_limits<double>::infinity()); },
          "step_time_s");
  refused([](auto& r) { r.mutable_measurement()->set_ci95_s(std::nan("")); }, "ci95_s");
  EXPECT_TRUE(Send(good).ok());

  // A message that is too long is cut rather than the outcome lost.
  v1::ReportTrialRequest failed = ReportOf(Lease("workers/a", epoch), epoch, "r2");
  failed.set_outcome(v1::OUTCOME_FAILED);
  failed.clear_measurement();
  failed.set_message(std::string(100'000, 'm'));
  EXPECT_TRUE(Send(failed).ok());
  EXPECT_LT(Trials(study_)[0].message().size(), 20'000u);
}

TEST_F(WorkerServiceTest, RenewalSaysCancelOnceTheStudyIsCancelled) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  v1::RenewLeaseRequest renew;
  v1::RenewLeaseResponse response;
  EXPECT_EQ(Call(workers_, &Stub::RenewLease, renew, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  renew.set_worker("workers/a");
  renew.set_session_epoch(epoch);
  renew.set_lease_id(lease.lease_id());
  renew.set_fencing_token(lease.fencing_token());
  ASSERT_TRUE(Call(workers_, &Stub::RenewLease, renew, &response).ok());
  EXPECT_EQ(response.command(), v1::LEASE_COMMAND_CONTINUE);
  ASSERT_TRUE(Cancel(study_).ok());
  ASSERT_TRUE(Call(workers_, &Stub::RenewLease, renew, &response).ok());
  EXPECT_EQ(response.command(), v1::LEASE_COMMAND_CANCEL);
  renew.set_fencing_token(lease.fencing_token() + 1);
  EXPECT_EQ(Call(workers_, &Stub::RenewLease, renew, &response).error_code(),
            StatusCode::FAILED_PRECONDITION);
}

TEST_F(WorkerServiceTest, LogsAreTakenFromTheHolderInPieces) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  v1::AppendTrialLogRequest log;
  v1::AppendTrialLogResponse response;
  log.set_lease_id(lease.lease_id());
  log.set_fencing_token(lease.fencing_token());
  EXPECT_EQ(Call(workers_, &Stub::AppendTrialLog, log, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  log.set_text("step 1\n");
  EXPECT_TRUE(Call(workers_, &Stub::AppendTrialLog, log, &response).ok());
  log.set_text(std::string(65 << 10, 'x'));
  EXPECT_EQ(Call(workers_, &Stub::AppendTrialLog, log, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  log.set_text("x");
  log.set_fencing_token(lease.fencing_token() + 5);
  EXPECT_EQ(Call(workers_, &Stub::AppendTrialLog, log, &response).error_code(),
            StatusCode::FAILED_PRECONDITION);
}

TEST_F(WorkerServiceTest, AnOrderlyStopGivesTheJobBack) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  v1::DeregisterWorkerRequest stop;
  stop.set_worker("workers/a");
  stop.set_session_epoch(epoch);
  v1::DeregisterWorkerResponse response;
  EXPECT_TRUE(Call(workers_, &Stub::DeregisterWorker, stop, &response).ok());
  EXPECT_EQ(Call(workers_, &Stub::DeregisterWorker, stop, &response).error_code(),
            StatusCode::FAILED_PRECONDITION);
  std::int64_t other = 0;
  ASSERT_TRUE(Register("workers/b", "boot", 4, &other).ok());
  const v1::LeaseWorkResponse again = Lease("workers/b", other);
  EXPECT_EQ(again.job().name(), lease.job().name());
  EXPECT_EQ(again.job().attempt(), 2);
}

TEST_F(WorkerServiceTest, WhatIsNotSupportedYetSaysSo) {
  v1::RendezvousResponse rendezvous;
  v1::DrainWorkerResponse drain;
  EXPECT_EQ(Call(workers_, &Stub::Rendezvous, v1::RendezvousRequest(), &rendezvous).error_code(),
            StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Call(workers_, &Stub::DrainWorker, v1::DrainWorkerRequest(), &drain).error_code(),
            StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace autocfg
