// WorkerService over the wire: sessions, long polls, late, duplicate and foreign reports, logs, drain.
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;

TEST_F(WorkerServiceTest, WorkerWithTooFewSlotsGetsNoWork) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 3, &epoch).ok());
  EXPECT_FALSE(Lease("workers/a", epoch, 0.1).has_job());
}

TEST_F(WorkerServiceTest, WorkerWithoutDeviceKindIsACpuWorker) {
  v1::RegisterWorkerRequest request;
  request.set_worker("workers/a");
  request.set_boot_id("boot");
  request.mutable_inventory()->set_slots(4);
  v1::RegisterWorkerResponse response;
  const grpc::Status status = Call(workers_, &Stub::RegisterWorker, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::ListWorkersResponse list;
  ASSERT_TRUE(Call(workers_, &Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
  ASSERT_EQ(list.workers_size(), 1);
  EXPECT_EQ(list.workers(0).inventory().device_kind(), "cpu");
}

TEST_F(WorkerServiceTest, LongPollAnswersAsSoonAsThereIsWork) {
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

TEST_F(WorkerServiceTest, AbandonedPollsLoseNoWork) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse calibration = Lease("workers/a", epoch);
  for (int i = 0; i < 100; ++i) {
    v1::LeaseWorkRequest request;
    request.set_worker("workers/a");
    request.set_session_epoch(epoch);
    request.set_wait_s(60);
    v1::LeaseWorkResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1));
    // OK if an earlier, abandoned call arrived late and displaced this one. CANCELLED if the coordinator saw
    // the deadline pass before this client did.
    EXPECT_THAT(workers_->LeaseWork(&context, request, &response).error_code(),
                testing::AnyOf(StatusCode::DEADLINE_EXCEEDED, StatusCode::OK, StatusCode::CANCELLED));
    EXPECT_FALSE(response.has_job());
  }
  EXPECT_TRUE(Send(ReportOf(calibration, epoch, "r1")).ok());
  // The last abandoned call may still displace a poll, whose answer is then empty; a worker polls again.
  v1::LeaseWorkResponse trial;
  for (int i = 0; i < 5 && !trial.has_job(); ++i) trial = Lease("workers/a", epoch);
  ASSERT_TRUE(trial.job().has_train());
  EXPECT_TRUE(Send(ReportOf(trial, epoch, "r2")).ok());
  const std::vector<v1::Trial> trials = Trials(study_);
  ASSERT_FALSE(trials.empty());
  EXPECT_EQ(trials[0].state(), v1::TRIAL_STATE_MEASURED);
  // The last abandoned call may take the lease with it, whose attempt is then lost; the job is queued again.
  for (const v1::Attempt& attempt : trials[0].attempts()) {
    if (attempt.state() != v1::TRIAL_STATE_MEASURED) {
      EXPECT_EQ(attempt.state(), v1::TRIAL_STATE_LOST);
      EXPECT_THAT(attempt.message(), testing::HasSubstr("did not reach the worker"));
    }
  }
}

TEST_F(WorkerServiceTest, DuplicateLateAndForeignReportsAreIgnored) {
  std::int64_t epoch = 0;
  std::int64_t other = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  ASSERT_TRUE(Register("workers/b", "boot", 1, &other).ok());
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

  // The worker was restarted; the report of its previous session arrives late.
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

TEST_F(WorkerServiceTest, RenewalAnswersCancelOnceTheStudyIsCancelled) {
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

TEST_F(WorkerServiceTest, LogsAreBoundedAndRequireTheLease) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  ASSERT_TRUE(Send(ReportOf(Lease("workers/a", epoch), epoch, "calibration")).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  v1::AppendTrialLogRequest log;
  v1::AppendTrialLogResponse response;
  log.set_lease_id(lease.lease_id());
  log.set_fencing_token(lease.fencing_token());
  EXPECT_EQ(Call(workers_, &Stub::AppendTrialLog, log, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  log.set_text("step 1\n");
  EXPECT_TRUE(Call(workers_, &Stub::AppendTrialLog, log, &response).ok());
  v1::GetTrialLogRequest read;
  v1::TrialLog stored;
  const auto get = [&] { return Call(studies_, &v1::StudyService::Stub::GetTrialLog, read, &stored); };
  read.set_name(study_ + "/trials/99");
  EXPECT_EQ(get().error_code(), StatusCode::NOT_FOUND);
  read.set_name(study_);
  EXPECT_EQ(get().error_code(), StatusCode::INVALID_ARGUMENT);
  read.set_name(study_ + "/calibration");
  ASSERT_TRUE(get().ok());
  EXPECT_EQ(stored.trial(), study_ + "/calibration");
  EXPECT_EQ(stored.text(), "");
  read.set_name(lease.job().name());
  ASSERT_TRUE(get().ok());
  EXPECT_EQ(stored.text(), "step 1\n");
  read.set_attempt(2);
  EXPECT_EQ(get().error_code(), StatusCode::NOT_FOUND);
  read.set_attempt(-1);
  EXPECT_EQ(get().error_code(), StatusCode::INVALID_ARGUMENT);
  read.set_attempt(1);
  read.set_max_bytes(3);
  ASSERT_TRUE(get().ok());
  EXPECT_EQ(stored.text(), " 1\n");
  EXPECT_EQ(stored.left_out_bytes(), 4);
  for (const std::int64_t bytes : {std::int64_t{-1}, (std::int64_t{1} << 20) + 1}) {
    read.set_max_bytes(bytes);
    EXPECT_EQ(get().error_code(), StatusCode::INVALID_ARGUMENT) << bytes;
  }
  log.set_text(std::string(65 << 10, 'x'));
  EXPECT_EQ(Call(workers_, &Stub::AppendTrialLog, log, &response).error_code(), StatusCode::INVALID_ARGUMENT);
  log.set_text("x");
  log.set_fencing_token(lease.fencing_token() + 5);
  EXPECT_EQ(Call(workers_, &Stub::AppendTrialLog, log, &response).error_code(),
            StatusCode::FAILED_PRECONDITION);
}

TEST_F(WorkerServiceTest, ProgressOfACalibrationIsTheStudys) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  ASSERT_TRUE(lease.job().has_calibrate());
  v1::ReportProgressRequest request;
  v1::ReportProgressResponse response;
  request.set_fencing_token(lease.fencing_token());
  EXPECT_EQ(Call(workers_, &Stub::ReportProgress, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
  request.set_lease_id(lease.lease_id());
  request.mutable_progress()->set_ops_passed(30);
  EXPECT_EQ(Call(workers_, &Stub::ReportProgress, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
  request.mutable_progress()->set_ops_all(40);
  request.mutable_progress()->set_left_s(-1);
  EXPECT_EQ(Call(workers_, &Stub::ReportProgress, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
  request.mutable_progress()->set_left_s(2.5);
  ASSERT_TRUE(Call(workers_, &Stub::ReportProgress, request, &response).ok());
  const v1::Study study = Get(study_);
  EXPECT_EQ(study.calibration_ops_passed(), 30);
  EXPECT_EQ(study.calibration_ops(), 40);
  EXPECT_EQ(study.eta_s(), 2.5);
  // What is timed so far comes with it, and is checked as a result is.
  v1::OpTime& time = *request.mutable_calibration()->add_ops();
  *time.mutable_op() = lease.job().calibrate().ops(0);
  EXPECT_EQ(Call(workers_, &Stub::ReportProgress, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT)
      << "a time of 0";
  time.set_seconds(1e-3);
  EXPECT_TRUE(Call(workers_, &Stub::ReportProgress, request, &response).ok());
  time.mutable_op()->set_kind("no such op");
  EXPECT_EQ(Call(workers_, &Stub::ReportProgress, request, &response).error_code(),
            StatusCode::INVALID_ARGUMENT);
  request.clear_calibration();
  request.set_fencing_token(lease.fencing_token() + 5);
  EXPECT_EQ(Call(workers_, &Stub::ReportProgress, request, &response).error_code(),
            StatusCode::FAILED_PRECONDITION);
  // The result comes with the last ops.
  ASSERT_TRUE(Send(ReportOf(lease, epoch, "r")).ok());
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (Get(study_).phase() == "calibrating" && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(Get(study_).phase(), "measuring");
  EXPECT_EQ(Get(study_).calibration_ops_passed(), 40);
}

TEST_F(WorkerServiceTest, DeregisteringReturnsTheJob) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  v1::DeregisterWorkerRequest stop;
  stop.set_worker("workers/a");
  stop.set_session_epoch(epoch);
  v1::DeregisterWorkerResponse response;
  EXPECT_TRUE(Call(workers_, &Stub::DeregisterWorker, stop, &response).ok());
  EXPECT_TRUE(Call(workers_, &Stub::DeregisterWorker, stop, &response).ok()) << "the retry of one that left";
  stop.set_session_epoch(epoch + 7);
  EXPECT_EQ(Call(workers_, &Stub::DeregisterWorker, stop, &response).error_code(), StatusCode::NOT_FOUND);
  std::int64_t other = 0;
  ASSERT_TRUE(Register("workers/b", "boot", 4, &other).ok());
  const v1::LeaseWorkResponse again = Lease("workers/b", other);
  EXPECT_EQ(again.job().name(), lease.job().name());
  EXPECT_EQ(again.job().attempt(), 2);
}

TEST_F(WorkerServiceTest, WorkersThatLeaveAreListedWithTheTimeThatTheyTakeJobs) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const auto listed = [&] {
    v1::ListWorkersResponse list;
    EXPECT_TRUE(Call(workers_, &Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
    EXPECT_EQ(list.workers_size(), 1);
    return list.workers(0);
  };
  EXPECT_FALSE(listed().has_leaves_in_s());
  v1::LeaseWorkRequest request;
  v1::LeaseWorkResponse response;
  request.set_worker("workers/a");
  request.set_session_epoch(epoch);
  request.set_leaves_in_s(5000);
  ASSERT_TRUE(Call(workers_, &Stub::LeaseWork, request, &response).ok());
  ASSERT_TRUE(listed().has_leaves_in_s());
  EXPECT_GT(listed().leaves_in_s(), 4000);
  EXPECT_LE(listed().leaves_in_s(), 5000);
  request.set_leaves_in_s(0);
  ASSERT_TRUE(Call(workers_, &Stub::LeaseWork, request, &response).ok());
  EXPECT_EQ(listed().leaves_in_s(), 0);
  request.clear_leaves_in_s();
  ASSERT_TRUE(Call(workers_, &Stub::LeaseWork, request, &response).ok());
  EXPECT_FALSE(listed().has_leaves_in_s()) << "it stays after all";
}

TEST_F(WorkerServiceTest, DrainingWorkerIsToldAndListedAsDraining) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  v1::LeaseWorkResponse told;
  std::thread polling([&] { told = Lease("workers/a", epoch, 15); });
  v1::DrainWorkerRequest drain;
  v1::DrainWorkerResponse drained;
  EXPECT_EQ(Call(workers_, &Stub::DrainWorker, drain, &drained).error_code(), StatusCode::INVALID_ARGUMENT);
  drain.set_worker("workers/nobody");
  EXPECT_EQ(Call(workers_, &Stub::DrainWorker, drain, &drained).error_code(), StatusCode::NOT_FOUND);
  drain.set_worker("workers/a");
  EXPECT_TRUE(Call(workers_, &Stub::DrainWorker, drain, &drained).ok());
  EXPECT_TRUE(Call(workers_, &Stub::DrainWorker, drain, &drained).ok());
  polling.join();
  EXPECT_TRUE(told.drain());
  EXPECT_FALSE(told.has_job());
  v1::ListWorkersResponse list;
  ASSERT_TRUE(Call(workers_, &Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
  ASSERT_EQ(list.workers_size(), 1);
  EXPECT_EQ(list.workers(0).state(), v1::WORKER_STATE_DRAINING);
  EXPECT_TRUE(Send(ReportOf(lease, epoch, "r")).ok());  // running jobs may finish
  v1::DeregisterWorkerRequest stop;
  stop.set_worker("workers/a");
  stop.set_session_epoch(epoch);
  v1::DeregisterWorkerResponse stopped;
  EXPECT_TRUE(Call(workers_, &Stub::DeregisterWorker, stop, &stopped).ok());
  ASSERT_TRUE(Call(workers_, &Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
  EXPECT_EQ(list.workers_size(), 0);
  v1::ListWorkersRequest all;
  all.set_gone(true);
  ASSERT_TRUE(Call(workers_, &Stub::ListWorkers, all, &list).ok());
  ASSERT_EQ(list.workers_size(), 1);
  EXPECT_EQ(list.workers(0).state(), v1::WORKER_STATE_GONE);
  all.set_page_token("7");
  EXPECT_EQ(Call(workers_, &Stub::ListWorkers, all, &list).error_code(), StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace autocfg::server
