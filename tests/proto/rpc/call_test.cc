#include "proto/rpc/call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "autocfg/v1/worker_service.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "proto/rpc/channel.h"
#include "tests/support/missing_path.h"

namespace autocfg {
namespace {

TEST(ToAbsl, KeepsCodeAndMessage) {
  EXPECT_TRUE(ToAbsl(grpc::Status::OK).ok());
  const absl::Status status = ToAbsl({grpc::StatusCode::FAILED_PRECONDITION, "not yours"});
  EXPECT_EQ(status, absl::FailedPreconditionError("not yours"));
  EXPECT_TRUE(absl::IsUnauthenticated(ToAbsl({grpc::StatusCode::UNAUTHENTICATED, ""})));
  EXPECT_TRUE(absl::IsAborted(ToAbsl({grpc::StatusCode::ABORTED, ""})));
}

TEST(ToGrpc, KeepsCodeAndMessageInOneLine) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  const grpc::Status status = ToGrpc(absl::FailedPreconditionError("lease a\n\x1b[31mb is not held"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "lease a [31mb is not held");
  absl::Status full = absl::ResourceExhaustedError("no room");
  full.SetPayload(kAnswersUnavailable, absl::Cord());
  EXPECT_EQ(ToGrpc(full).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ToGrpc(full).error_message(), "no room");
}

// Answers no call until the caller gives up.
class ParkingService final : public v1::WorkerService::Service {
 public:
  ParkingService() : address(fmt::format("unix:{}/call_test_{}.sock", testing::TempDir(), getpid())) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ParkingService() override { server_->Shutdown(std::chrono::system_clock::now()); }
  grpc::Status LeaseWork(grpc::ServerContext* context, const v1::LeaseWorkRequest*,
                         v1::LeaseWorkResponse*) override {
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return grpc::Status::CANCELLED;
  }
  grpc::Status RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest* request,
                              v1::RegisterWorkerResponse* response) override {
    response->set_worker(request->worker());
    return grpc::Status::OK;
  }

  const std::string address;

 private:
  std::unique_ptr<grpc::Server> server_;
};

TEST(Call, ReturnsAnswerDeadlineOrCancellation) {
  ParkingService service;
  const auto stub = v1::WorkerService::NewStub(*OpenChannel({.target = service.address}, false));
  CallGroup group;
  v1::RegisterWorkerRequest name;
  name.set_worker("workers/a");
  v1::RegisterWorkerResponse named;
  ASSERT_TRUE(
      Call(*stub, &v1::WorkerService::Stub::RegisterWorker, name, named, group, {.deadline_s = 60}).ok());
  EXPECT_EQ(named.worker(), "workers/a");

  v1::LeaseWorkResponse nothing;
  EXPECT_TRUE(absl::IsDeadlineExceeded(Call(*stub, &v1::WorkerService::Stub::LeaseWork,
                                            v1::LeaseWorkRequest(), nothing, group, {.deadline_s = 0.05})));

  std::thread canceller([&] {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // either before the call begins or while it is in flight
    group.Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled(Call(*stub, &v1::WorkerService::Stub::LeaseWork, v1::LeaseWorkRequest(),
                                     nothing, group, {.deadline_s = 600})));
  canceller.join();
  EXPECT_TRUE(group.cancelled());
  EXPECT_TRUE(absl::IsCancelled(
      Call(*stub, &v1::WorkerService::Stub::RegisterWorker, name, named, group, {.deadline_s = 60})))
      << "a call that begins too late";
  EXPECT_TRUE(group.WaitUntilCancelled(600));
}

TEST(Call, UnreachableServerIsUnavailable) {
  const auto stub =
      v1::WorkerService::NewStub(*OpenChannel({.target = Missing("unix:/nonexistent/socket")}, false));
  CallGroup group;
  v1::LeaseWorkResponse nothing;
  EXPECT_TRUE(absl::IsUnavailable(Call(*stub, &v1::WorkerService::Stub::LeaseWork, v1::LeaseWorkRequest(),
                                       nothing, group, {.deadline_s = 60})));
}

}  // namespace
}  // namespace autocfg
