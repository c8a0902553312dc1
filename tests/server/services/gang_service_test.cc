// WorkerService over the wire: workers that share one job.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;

// Two workers of two slots each, which share jobs of four ranks.
class GangServiceTest : public WorkerServiceTest {
 protected:
  // A worker with its own connection, as a separate process has.
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

TEST_F(GangServiceTest, TwoWorkersShareOneJob) {
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

TEST_F(GangServiceTest, KilledWorkerStopsTheOther) {
  // Calls that a's process has parked while it works: its poll and its renewal.
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
  // b waits for a in a gathering, and with a renewal.
  grpc::Status met;
  v1::RendezvousResponse values;
  std::thread meeting([&] { met = Meet(members_[1], "addresses", 0, &values); });
  v1::RenewLeaseResponse command;
  grpc::Status renewed;
  std::thread waiting([&] { renewed = Renew(members_[1], 60, &command); });
  // Otherwise a's lease would expire instead.
  for (const Member& member : members_) AwaitPoll(member.name);
  poll_context.TryCancel();
  renewal_context.TryCancel();
  polling.join();
  renewing.join();
  waiting.join();
  meeting.join();
  EXPECT_TRUE(renewed.ok()) << renewed.error_message();
  EXPECT_EQ(command.command(), v1::LEASE_COMMAND_CANCEL);
  // The second one if the gathering began only after the loss.
  EXPECT_THAT(met.error_code(), testing::AnyOf(StatusCode::ABORTED, StatusCode::FAILED_PRECONDITION))
      << met.error_message();
  // a was lost, not cancelled: its late report is rejected.
  EXPECT_EQ(Finish(members_[0], "late").error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(GangServiceTest, RejectsMalformedGatherings) {
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

}  // namespace
}  // namespace autocfg::server
