// WorkerService over the wire: malformed registrations, reports and bytes do not affect studies.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

TEST_F(WorkerServiceTest, MalformedRegistrationsAreInvalidArguments) {
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

TEST_F(WorkerServiceTest, RejectsInvalidInventory) {
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
  refused([](auto& i) { i.add_engines(); }, "inventory.engines.name: '' is no engine's name");
  refused([](auto& i) { i.add_engines()->set_name("autocfg"); }, "inventory.engines.name is autocfg");
  refused(
      [](auto& i) {
        i.add_engines()->set_name("a");
        i.add_engines()->set_name("a");
      },
      "inventory.engines has a twice");
  refused(
      [](auto& i) {
        for (int engine = 0; engine < 50; ++engine) i.add_engines()->set_name("e" + std::to_string(engine));
      },
      "inventory.engines has 50");
  refused(
      [](auto& i) {
        i.add_engines()->set_name("a");
        i.mutable_engines(0)->set_version(std::string(300, 'v'));
      },
      "inventory.engines.version");
  refused(
      [](auto& i) {
        i.add_engines()->set_name("a");
        i.mutable_engines(0)->add_space("");
      },
      "inventory.engines.space");
  refused([](auto& i) { i.add_gpus()->set_memory_bytes(-1); }, "inventory.gpus.memory_bytes");
  refused([](auto& i) { i.add_gpus()->set_left_out(std::string(5000, 'x')); }, "inventory.gpus.left_out");
  v1::ListWorkersResponse list;
  ASSERT_TRUE(Call(workers_, &Stub::ListWorkers, v1::ListWorkersRequest(), &list).ok());
  EXPECT_EQ(list.workers_size(), 0);
}

TEST_F(WorkerServiceTest, LeasingRequiresASession) {
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
  request.set_wait_s(0);
  for (const double leaves : {-1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e9}) {
    request.set_leaves_in_s(leaves);
    const grpc::Status status = Call(workers_, &Stub::LeaseWork, request, &response);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("leaves_in_s"));
  }
}

TEST_F(WorkerServiceTest, MalformedReportsNameTheFieldAndKeepTheLease) {
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
  for (const double seconds : {0.0, 1e-300, 9e-13, 1e7, 1e300, std::nan("")})
    refused([&](auto& r) { r.mutable_calibration()->mutable_ops(0)->set_seconds(seconds); },
            "calibration.ops");
  for (const double seconds : {-1.0, 1e7, std::nan("")})
    refused([&](auto& r) { r.mutable_calibration()->mutable_ops(0)->set_host_s(seconds); }, "host_s");
  refused([](auto& r) { r.mutable_calibration()->clear_ops(); }, "calibration.ops lacks");
  refused([](auto& r) { r.mutable_calibration()->mutable_ops(0)->mutable_op()->set_kind("frob"); }, "frob");
  refused([](auto& r) { *r.mutable_calibration()->add_ops() = r.calibration().ops(0); }, "calibration.ops");
  for (const double seconds : {-1.0, 1e300, std::nan("")})
    refused([&](auto& r) { r.mutable_measurement()->set_device_s(seconds); }, "device_s");
  refused([](auto& r) { r.mutable_measurement()->set_device_overhead_bytes(-1); }, "device_overhead_bytes");
  refused([](auto& r) { r.mutable_measurement()->set_peak_memory_bytes(-1); }, "peak_memory_bytes");
  refused([](auto& r) { r.mutable_measurement()->add_step_time_s(0); }, "step_time_s");
  refused([](auto& r) { r.mutable_measurement()->add_step_time_s(std::numeric_limits<double>::infinity()); },
          "step_time_s");
  for (const double seconds : {-1.0, 1e-300, 1e-10, 1e7, 1e300, std::nan("")})
    refused([&](auto& r) { r.mutable_measurement()->add_step_time_s(seconds); }, "step_time_s");
  refused([](auto& r) { r.mutable_measurement()->set_ci95_s(std::nan("")); }, "ci95_s");
  for (const double seconds : {-1e-9, std::nan(""), std::numeric_limits<double>::infinity()}) {
    refused([&](auto& r) { r.mutable_measurement()->mutable_breakdown_s()->set_pp_comm(seconds); },
            "measurement.breakdown_s.pp_comm");
    refused([&](auto& r) { r.mutable_measurement()->mutable_breakdown_s()->set_hidden_comm(seconds); },
            "measurement.breakdown_s.hidden_comm");
  }
  EXPECT_TRUE(Send(good).ok());

  // A long message is truncated, so that the outcome is not lost.
  v1::ReportTrialRequest failed = ReportOf(Lease("workers/a", epoch), epoch, "r2");
  failed.set_outcome(v1::OUTCOME_FAILED);
  failed.clear_measurement();
  failed.set_message(std::string(100'000, 'm'));
  EXPECT_TRUE(Send(failed).ok());
  EXPECT_LT(Trials(study_)[0].message().size(), 20'000u);
}

TEST_F(WorkerServiceTest, MismatchedMeasurementIsRejectedWithoutEffect) {
  std::int64_t epoch = 0;
  ASSERT_TRUE(Register("workers/a", "boot", 4, &epoch).ok());
  ASSERT_TRUE(Send(ReportOf(Lease("workers/a", epoch), epoch, "r1")).ok());
  const v1::LeaseWorkResponse trial = Lease("workers/a", epoch);
  const v1::ReportTrialRequest good = ReportOf(trial, epoch, "r2");
  v1::ReportTrialRequest slice = good;
  slice.mutable_measurement()->set_slice(true);
  const auto refused = [&](const std::function<void(v1::TimelineRow&)>& edit, const std::string& what) {
    v1::ReportTrialRequest bad = good;
    v1::TimelineRow& row = *bad.mutable_timeline()->add_rows();
    row.set_lane("compute");
    row.set_kind("forward");
    row.set_end_s(1);
    edit(row);
    EXPECT_EQ(Send(bad).error_code(), StatusCode::INVALID_ARGUMENT) << what;
    EXPECT_THAT(Send(bad).error_message(), HasSubstr(what));
  };
  refused([](auto& row) { row.set_kind("frob"); }, "timeline.rows: unknown kind 'frob'");
  refused([](auto& row) { row.set_lane(""); }, "timeline.rows: unknown lane");
  refused([](auto& row) { row.set_end_s(std::nan("")); }, "timeline.rows: invalid time span");
  refused([](auto& row) { row.set_pipeline(1 << 20); }, "timeline.rows: rank 1048576");
  EXPECT_EQ(Send(slice).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Send(slice).error_message(), "measurement.slice is true, but the job runs all ranks of the plan");
  v1::ReportTrialRequest few = good;
  few.mutable_measurement()->mutable_step_time_s()->RemoveLast();
  EXPECT_THAT(Send(few).error_message(), HasSubstr("measurement.step_time_s"));
  EXPECT_EQ(Trials(study_)[0].state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(Send(good).ok()) << "corrected";
  EXPECT_EQ(Trials(study_)[0].state(), v1::TRIAL_STATE_MEASURED);
}

// Returns the status of a raw call of `method`.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& bytes) {
  grpc::GenericStub generic(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  auto call = generic.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&response, &status, &response);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

TEST_F(WorkerServiceTest, UnknownMethodIsUnimplementedWithItsName) {
  const std::string garbage = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
  for (const std::string method :
       {"/autocfg.v1.WorkerService/Nope", "/autocfg.v1.StudyService/LeaseWork", "/autocfg.v1.Nope/LeaseWork",
        "/autocfg.v2.StudyService/GetStudy", "/nope"}) {
    for (const std::string& bytes : {std::string(), garbage}) {
      const grpc::Status status = RawCall(channel_, method, bytes);
      EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED) << method << ": " << status.error_message();
      EXPECT_THAT(status.error_message(), HasSubstr("unknown method " + method));
    }
  }
  for (const std::string method :
       {"/autocfg.v1.WorkerService/LeaseWork", "/autocfg.v1.StudyService/GetStudy"}) {
    const grpc::Status status = RawCall(channel_, method, garbage);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(), HasSubstr(method + ": the request cannot be parsed"));
  }
  const grpc::Status health = RawCall(channel_, "/grpc.health.v1.Health/Check", garbage);
  EXPECT_NE(health.error_code(), StatusCode::UNIMPLEMENTED) << health.error_message();
}

TEST_F(WorkerServiceTest, RejectsUnparsableAndOversizedMessages) {
  // Sends raw bytes to every method of the service.
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("autocfg.v1.WorkerService");
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const grpc::Status status = RawCall(channel_, "/autocfg.v1.WorkerService/" + service->method(i)->name(),
                                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
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

}  // namespace
}  // namespace autocfg::server
