// The coordinator's log: one line per event that matters to an operator, none for routine events.
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/log_lines.h"

namespace autocfg::server {
namespace {

using Stub = v1::WorkerService::Stub;

class ServerLog : public CoordinatorFixture {
 protected:
  void AwaitLine(const std::string& words) {
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    while (log_.Count(words) == 0 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_GT(log_.Count(words), 0) << words << " is not among " << testing::PrintToString(log_.lines());
  }
  std::int64_t Register(const std::string& boot) {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/a");
    request.set_boot_id(boot);
    request.mutable_inventory()->set_slots(4);
    request.mutable_inventory()->set_hostname("left\nright");
    v1::RegisterWorkerResponse response;
    EXPECT_TRUE(Call(workers_, &Stub::RegisterWorker, request, &response).ok());
    return response.session_epoch();
  }
  v1::LeaseWorkResponse Lease(std::int64_t epoch) {
    v1::LeaseWorkRequest request;
    request.set_worker("workers/a");
    request.set_session_epoch(epoch);
    request.set_wait_s(15);
    v1::LeaseWorkResponse response;
    EXPECT_TRUE(Call(workers_, &Stub::LeaseWork, request, &response).ok());
    return response;
  }

  LogLines log_;
};

TEST_F(ServerLog, LogsWorkersAndEndsOfJobsAndStudies) {
  Open(/*lease_duration_s=*/0.5);
  const std::string name = Create(SmallSpec()).name();
  ASSERT_TRUE(Start(name).ok());
  AwaitLine(name + " is RUNNING");
  std::int64_t epoch = Register("one");
  AwaitLine("workers/a has registered (session 1): host left\\x0aright, 4 slots, cpu");
  const v1::LeaseWorkResponse lease = Lease(epoch);
  ASSERT_TRUE(lease.has_job());
  AwaitLine("workers/a: its lease on " + lease.job().name() + " expired");
  AwaitLine("the job is queued again");
  AwaitLine("workers/a is silent");
  v1::ReportTrialRequest report = FakeWorker::ByFormula(lease.job());
  report.set_worker("workers/a");
  report.set_session_epoch(epoch);
  report.set_lease_id(lease.lease_id());
  report.set_fencing_token(lease.fencing_token());
  report.set_attempt(lease.job().attempt());
  report.set_request_id("late");
  v1::ReportTrialResponse reported;
  EXPECT_FALSE(Call(workers_, &Stub::ReportTrial, report, &reported).ok());
  AwaitLine("workers/a: the report is rejected");
  v1::DrainWorkerRequest drain;
  drain.set_worker("workers/a");
  v1::DrainWorkerResponse drained;
  EXPECT_TRUE(Call(workers_, &Stub::DrainWorker, drain, &drained).ok());
  AwaitLine("workers/a drains");
  v1::DeregisterWorkerRequest stop;
  stop.set_worker("workers/a");
  stop.set_session_epoch(epoch);
  v1::DeregisterWorkerResponse stopped;
  EXPECT_TRUE(Call(workers_, &Stub::DeregisterWorker, stop, &stopped).ok());
  AwaitLine("workers/a has deregistered");
  ASSERT_TRUE(Pause(name).ok());
  AwaitLine(name + " is PAUSED");
  ASSERT_TRUE(Cancel(name).ok());
  AwaitLine(name + " is CANCELLED: cancelled by the user");
}

TEST_F(ServerLog, CompletedStudyLogsTwoLines) {
  Open();
  const std::string name = Create(SmallSpec()).name();
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(name).ok());
  EXPECT_EQ(Finish(name).state(), v1::STUDY_STATE_DONE);
  AwaitLine(name + " is DONE");
  int of_study = 0;
  for (const std::string& line : log_.lines()) {
    EXPECT_EQ(line.find('\n'), line.npos) << line;
    if (line.find(name) != line.npos) ++of_study;
  }
  EXPECT_EQ(of_study, 2) << testing::PrintToString(log_.lines());
}

}  // namespace
}  // namespace autocfg::server
