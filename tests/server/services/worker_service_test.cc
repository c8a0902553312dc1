// WorkerService over the wire: malformed requests, sessions, late, duplicate and foreign reports, logs, the
// long poll.
#include <cmath>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/generic/generic_stub.h"
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
    request.mutable_inventory()->set_device_kind("cpu");
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
  refused([](auto& r) { r.mutable_calibration()->clear_ops(); }, "calibration.ops lacks");
  refused([](auto& r) { r.mutable_calibration()->mutable_ops(0)->mutable_op()->set_kind("frob"); }, "frob");
  refused([](auto& r) { *r.mutable_calibration()->add_ops() = r.calibration().ops(0); }, "calibration.ops");
  refused([](auto& r) { r.mutable_measurement()->set_device_s(-1); }, "device_s");
  refused([](auto& r) { r.mutable_measurement()->set_device_overhead_bytes(-1); }, "device_overhead_bytes");
  refused([](auto& r) { r.mutable_measurement()->set_peak_memory_bytes(-1); }, "peak_memory_bytes");
  refused([](auto& r) { r.mutable_measurement()->add_step_time_s(0); }, "step_time_s");
  refused([](auto& r) { r.mutable_measurement()->add_step_time_s(std::numeric_limits<double>::infinity()); },
          "step_time_s");
  for (const double seconds : {-1.0, 1e-300, 1e-10, 1e7, 1e300, std::nan("")})
    refused([&](auto& r) { r.mutable_measurement()->add_step_time_s(seconds); }, "step_time_s");
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

TEST_F(WorkerServiceTest, AMeasurementOfWhatWasNotAskedForHurtsNoStudy) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  ASSERT_TRUE(Send(ReportOf(Lease("workers/a", epoch), epoch, "r1")).ok());
  const v1::LeaseWorkResponse trial = Lease("workers/a", epoch);
  const v1::ReportTrialRequest good = ReportOf(trial, epoch, "r2");
  v1::ReportTrialRequest slice = good;
  slice.mutable_measurement()->set_slice(true);
  EXPECT_EQ(Send(slice).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Send(slice).error_message(), "measurement.slice is true, and the job runs all ranks of the plan");
  v1::ReportTrialRequest few = good;
  few.mutable_measurement()->mutable_step_time_s()->RemoveLast();
  EXPECT_THAT(Send(few).error_message(), HasSubstr("measurement.step_time_s"));
  EXPECT_EQ(Trials(study_)[0].state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(Send(good).ok()) << "corrected";
  EXPECT_EQ(Trials(study_)[0].state(), v1::TRIAL_STATE_MEASURED);
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

TEST_F(WorkerServiceTest, AWorkerThatLiesAboutItsInventoryIsRefused) {
  const auto refused = [&](const std::function<void(v1::Inventory&)>& edit, const std::string& field) {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/a");
    request.set_boot_id("boot");
    request.mutable_inventory()->set_slots(4);
    request.mutable_inventory()->set_device_kind("cpu");
    edit(*request.mutable_inventory());
    v1::RegisterWorkerResponse response;
    const grpc::Status status = Call(workers_, &Stub::RegisterWorker, request, &response);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_THAT(status.error_message(), HasSubstr(field));
    EXPECT_THAT(status.error_message(), testing::Not(HasSubstr("\n")));
  };
  refused([](auto& i) { i.set_slots(1 << 20); }, "inventory.slots is 1048576");
  refused([](auto& i) { i.set_slots(std::numeric_limits<std::int64_t>::min()); }, "inventory.slots");
  refused([](auto& i) { i.set_device_kind("tpu"); }, "cpu or cuda");
  refused([](auto& i) { i.set_hostname(std::string(10'000, 'h')); }, "inventory.hostname");
  refused([](auto& i) { i.set_device_fingerprint(std::string(1 << 20, 'f')); },
          "inventory.device_fingerprint");
  refused([](auto& i) { i.set_physical_cores(-1); }, "inventory.physical_cores");
  refused([](auto& i) { i.set_memory_bytes(-1); }, "inventory.memory_bytes");
  refused(
      [](auto& i) {
        for (int gpu = 0; gpu < 5000; ++gpu) i.add_gpus();
      },
      "inventory.gpus has 5000");
  refused([](auto& i) { i.add_gpus()->set_memory_bytes(-1); }, "inventory.gpus.memory_bytes");
  refused([](auto& i) { i.add_gpus()->set_left_out(std::string(5000, 'x')); }, "inventory.gpus.left_out");
  v1::ListWorkersResponse list;
  ASSERT_TRUE(Call(workers_, &Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
  EXPECT_EQ(list.workers_size(), 0);
}

TEST_F(WorkerServiceTest, AWorkerThatNamesNoDeviceKindIsACpu) {
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

TEST_F(WorkerServiceTest, BytesThatAreNoMessageAndMessagesThatAreTooLargeHurtNobody) {
  // Raw bytes to every method of the service.
  grpc::GenericStub generic(channel_);
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("autocfg.v1.WorkerService");
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Slice garbage("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    grpc::ByteBuffer request(&garbage, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    auto call = generic.PrepareUnaryCall(&context, "/autocfg.v1.WorkerService/" + service->method(i)->name(),
                                         request, &queue);
    call->StartCall();
    call->Finish(&response, &status, &response);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_FALSE(status.ok()) << service->method(i)->name();
    EXPECT_NE(status.error_code(), StatusCode::DEADLINE_EXCEEDED) << service->method(i)->name();
  }
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  const v1::LeaseWorkResponse lease = Lease("workers/a", epoch);
  v1::ReportTrialRequest large = ReportOf(lease, epoch, "large");
  large.set_message(std::string(17 << 20, 'm'));
  EXPECT_EQ(Send(large).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Send(ReportOf(lease, epoch, "good")).ok());
}

TEST_F(WorkerServiceTest, PollsThatAreGivenUpLoseNoWork) {
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
    // OK: one that was given up before came late, and took its place.
    EXPECT_THAT(workers_->LeaseWork(&context, request, &response).error_code(),
                testing::AnyOf(StatusCode::DEADLINE_EXCEEDED, StatusCode::OK));
    EXPECT_FALSE(response.has_job());
  }
  EXPECT_TRUE(Send(ReportOf(calibration, epoch, "r1")).ok());
  const v1::LeaseWorkResponse trial = Lease("workers/a", epoch);
  ASSERT_TRUE(trial.job().has_train());
  EXPECT_TRUE(Send(ReportOf(trial, epoch, "r2")).ok());
  const std::vector<v1::Trial> trials = Trials(study_);
  ASSERT_FALSE(trials.empty());
  for (const v1::Attempt& attempt : trials[0].attempts()) {
    EXPECT_THAT(attempt.state(), testing::AnyOf(v1::TRIAL_STATE_MEASURED, v1::TRIAL_STATE_CANCELLED));
  }
}

// Two workers of two slots each, which run jobs of four ranks together.
class GangServiceTest : public WorkerServiceTest {
 protected:
  // A worker with a connection of its own, as a process of its own has.
  struct Member {
    std::string name;
    std::int64_t epoch = 0;
    std::unique_ptr<Stub> stub;
    std::shared_ptr<grpc::Channel> channel;
    v1::LeaseWorkResponse lease;
  };
  void SetUp() override {
    WorkerServiceTest::SetUp();
    for (const std::string name : {"workers/a", "workers/b"}) {
      Member& member = members_.emplace_back();
      member.name = name;
      grpc::ChannelArguments own;
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      member.channel =
          grpc::CreateCustomChannel(coordinator_->address(), grpc::InsecureChannelCredentials(), own);
      member.stub = v1::WorkerService::NewStub(member.channel);
      ASSERT_TRUE(Register(name, "boot", 2, &member.epoch).ok());
    }
    LeaseBoth();
  }
  void LeaseBoth() {
    std::vector<std::thread> polls;
    for (Member& member : members_)
      polls.emplace_back([&] { member.lease = Lease(member.name, member.epoch, 15); });
    for (std::thread& poll : polls) poll.join();
    for (const Member& member : members_) ASSERT_TRUE(member.lease.has_share()) << member.name;
  }
  grpc::Status Meet(Member& member, const std::string& name, std::int64_t sequence,
                    v1::RendezvousResponse* response) {
    v1::RendezvousRequest request;
    request.set_lease_id(member.lease.lease_id());
    request.set_fencing_token(member.lease.fencing_token());
    request.set_name(name);
    request.set_sequence(sequence);
    for (int i = 0; i < member.lease.share().ranks(); ++i)
      request.add_values("rank " + std::to_string(member.lease.share().first_rank() + i));
    return Call(member.stub, &Stub::Rendezvous, request, response);
  }
  grpc::Status Renew(Member& member, double wait_s, v1::RenewLeaseResponse* response) {
    v1::RenewLeaseRequest request;
    request.set_worker(member.name);
    request.set_session_epoch(member.epoch);
    request.set_lease_id(member.lease.lease_id());
    request.set_fencing_token(member.lease.fencing_token());
    request.set_wait_s(wait_s);
    return Call(member.stub, &Stub::RenewLease, request, response);
  }
  grpc::Status Finish(Member& member, const std::string& request_id) {
    v1::ReportTrialRequest report = ReportOf(member.lease, member.epoch, request_id);
    report.set_worker(member.name);
    return Send(report);
  }

  std::vector<Member> members_;
};

TEST_F(GangServiceTest, TwoWorkersRunOneJobTogether) {
  EXPECT_EQ(members_[0].lease.job().name(), members_[1].lease.job().name());
  for (const Member& member : members_) {
    EXPECT_EQ(member.lease.share().ranks(), 2);
    EXPECT_EQ(member.lease.share().workers(), 2);
    EXPECT_EQ(member.lease.share().barrier_s(), 30);
  }
  std::vector<v1::RendezvousResponse> responses(2);
  std::thread other([&] { EXPECT_TRUE(Meet(members_[1], "addresses", 0, &responses[1]).ok()); });
  const grpc::Status met = Meet(members_[0], "addresses", 0, &responses[0]);
  other.join();
  EXPECT_TRUE(met.ok()) << met.error_message();
  for (const v1::RendezvousResponse& response : responses)
    EXPECT_THAT(response.values(), testing::ElementsAre("rank 0", "rank 1", "rank 2", "rank 3"));

  v1::ListWorkersResponse list;
  v1::ListWorkersRequest page;
  page.set_page_size(1);
  for (const Member& member : members_) {
    ASSERT_TRUE(Call(workers_, &Stub::ListWorkers, page, &list).ok());
    ASSERT_EQ(list.workers_size(), 1);
    EXPECT_EQ(list.workers(0).name(), member.name);
    EXPECT_EQ(list.workers(0).state(), v1::WORKER_STATE_ACTIVE);
    EXPECT_EQ(list.workers(0).ranks_in_use(), 2);
    EXPECT_THAT(list.workers(0).jobs(), testing::ElementsAre(member.lease.job().name()));
    EXPECT_GT(list.workers(0).last_seen_s(), 0);
    page.set_page_token(list.next_page_token());
  }
  EXPECT_EQ(page.page_token(), "");

  EXPECT_TRUE(Finish(members_[0], "a1").ok());
  EXPECT_TRUE(Finish(members_[1], "b1").ok());
  LeaseBoth();
  EXPECT_TRUE(members_[0].lease.job().has_train());
}

TEST_F(GangServiceTest, WhenOneIsKilledTheOtherIsToldToStop) {
  // What a's process has parked while it works: its poll and its renewal.
  v1::LeaseWorkRequest poll;
  poll.set_worker(members_[0].name);
  poll.set_session_epoch(members_[0].epoch);
  poll.set_wait_s(60);
  grpc::ClientContext poll_context;
  grpc::ClientContext renewal_context;
  v1::LeaseWorkResponse poll_response;
  v1::RenewLeaseResponse renewal_response;
  v1::RenewLeaseRequest renewal;
  renewal.set_worker(members_[0].name);
  renewal.set_session_epoch(members_[0].epoch);
  renewal.set_lease_id(members_[0].lease.lease_id());
  renewal.set_fencing_token(members_[0].lease.fencing_token());
  renewal.set_wait_s(60);
  std::thread polling(
      [&] { EXPECT_FALSE(members_[0].stub->LeaseWork(&poll_context, poll, &poll_response).ok()); });
  std::thread renewing(
      [&] { EXPECT_FALSE(members_[0].stub->RenewLease(&renewal_context, renewal, &renewal_response).ok()); });
  // b waits for a at a gathering, and with a renewal.
  grpc::Status met;
  v1::RendezvousResponse values;
  std::thread meeting([&] { met = Meet(members_[1], "addresses", 0, &values); });
  v1::RenewLeaseResponse command;
  grpc::Status renewed;
  std::thread waiting([&] { renewed = Renew(members_[1], 60, &command); });
  // so that they are parked; where they are not, a's lease runs out
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  poll_context.TryCancel();
  renewal_context.TryCancel();
  polling.join();
  renewing.join();
  waiting.join();
  meeting.join();
  EXPECT_TRUE(renewed.ok()) << renewed.error_message();
  EXPECT_EQ(command.command(), v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(met.error_code(), StatusCode::ABORTED) << met.error_message();
  // a was lost, not cancelled: what it says later is refused.
  EXPECT_EQ(Finish(members_[0], "late").error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(GangServiceTest, MalformedGatheringsAreRefused) {
  v1::RendezvousResponse response;
  const auto code = [&](const v1::RendezvousRequest& request) {
    return Call(workers_, &Stub::Rendezvous, request, &response).error_code();
  };
  v1::RendezvousRequest request;
  EXPECT_EQ(code(request), StatusCode::INVALID_ARGUMENT);
  request.set_lease_id("lease");
  EXPECT_EQ(code(request), StatusCode::INVALID_ARGUMENT);
  request.set_name("addresses");
  EXPECT_EQ(code(request), StatusCode::FAILED_PRECONDITION);  // no such lease
  request.set_lease_id(members_[0].lease.lease_id());
  request.set_fencing_token(members_[0].lease.fencing_token());
  EXPECT_EQ(code(request), StatusCode::INVALID_ARGUMENT);  // no values
  request.add_values(std::string(2 << 20, 'v'));
  request.add_values("");
  EXPECT_EQ(code(request), StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerServiceTest, ADrainingWorkerIsToldAndListedSo) {
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
  EXPECT_TRUE(Send(ReportOf(lease, epoch, "r")).ok());  // what it has may end
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
}  // namespace autocfg
