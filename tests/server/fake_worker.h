// A worker that measures nothing: leases jobs over the real protocol and reports times from a formula.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "autocfg/v1/worker_service.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/convert/trainer_convert.h"
#include "search/ops/op_desc.h"

namespace autocfg::server {

class FakeWorker {
 public:
  // Returns the report of a job; the worker fills in the lease IDs. Called on the worker's thread.
  using Measure = std::function<v1::ReportTrialRequest(const v1::Job&)>;

  explicit FakeWorker(const std::string& address, Measure measure = ByFormula,
                      const std::string& boot_id = "boot", int slots = 4,
                      const std::string& name = "workers/fake")
      : FakeWorker(address, Cpu(slots), std::move(measure), boot_id, name) {}
  FakeWorker(const std::string& address, const v1::Inventory& inventory, Measure measure,
             const std::string& boot_id = "boot", const std::string& name = "workers/fake")
      : measure_(std::move(measure)), name_(name) {
    stub_ = v1::WorkerService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    v1::RegisterWorkerRequest request;
    request.set_worker(name_);
    request.set_boot_id(boot_id);
    *request.mutable_inventory() = inventory;
    v1::RegisterWorkerResponse response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    const grpc::Status status = stub_->RegisterWorker(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    epoch_ = response.session_epoch();
    thread_ = std::thread([this] { Loop(); });
  }
  ~FakeWorker() { Stop(); }

  // Deregisters, as an orderly stop does.
  void Stop() {
    if (!End()) return;
    v1::DeregisterWorkerRequest request;
    request.set_worker(name_);
    request.set_session_epoch(epoch_);
    v1::DeregisterWorkerResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
    stub_->DeregisterWorker(&context, request, &response);  // the coordinator may already be gone
  }
  // Reports nothing any more, not even the current job.
  void Mute() { killed_ = true; }
  // Ends without a message, at the latest after the current job, which is not reported.
  void Kill() {
    killed_ = true;
    End();
  }

  int jobs_done() const { return jobs_done_; }
  // For tests that measure the memory of their process: runs() lacks what is started from now on.
  void ForgetRuns() { remembers_ = false; }
  // Number of times each job was started, by name.
  std::map<std::string, int> runs() {
    std::lock_guard lock(mutex_);
    return runs_;
  }

  // Computes a job's times from its plan or its ops. The differences between plans exceed the noise, which is
  // deterministic.
  static v1::ReportTrialRequest ByFormula(const v1::Job& job) {
    v1::ReportTrialRequest report;
    report.set_outcome(v1::OUTCOME_MEASURED);
    v1::Measurement& measurement = *report.mutable_measurement();
    measurement.set_device_overhead_bytes(1 << 20);
    if (job.has_calibrate()) {
      for (const v1::OpDesc& message : job.calibrate().ops()) {
        const auto op = FromProto(message);
        EXPECT_TRUE(op.ok()) << op.status();
        v1::OpTime& time = *report.mutable_calibration()->add_ops();
        *time.mutable_op() = message;
        time.set_seconds(1e-6 + Flops(*op) / 2e10 + MinBytes(*op) / 5e9);
      }
      measurement.set_device_s(job.ranks() * 1.0);
      return report;
    }
    const double step = StepSeconds(job.train().plan());
    for (std::int64_t i = job.train().warmup_steps_untimed(); i < job.train().steps(); ++i) {
      measurement.add_step_time_s(step * (1 + 0.001 * static_cast<double>(i % 5)));
    }
    measurement.set_median_step_time_s(step);
    measurement.set_ci95_s(0.001 * step);
    measurement.set_device_s(job.ranks() * step * static_cast<double>(job.train().steps()));
    measurement.set_peak_memory_bytes(12345);
    return report;
  }
  static double StepSeconds(const v1::ParallelPlan& plan) {
    return 0.01 + 0.002 * static_cast<double>(plan.tp()) + 0.003 * static_cast<double>(plan.pp()) +
           0.0005 * static_cast<double>(plan.micro_batch()) +
           (plan.recompute().starts_with("full") ? 0.004 : 0) + (plan.schedule() == "gpipe" ? 0.0007 : 0);
  }

 private:
  static v1::Inventory Cpu(int slots) {
    v1::Inventory inventory;
    inventory.set_slots(slots);
    inventory.set_device_kind("cpu");
    return inventory;
  }

  bool End() {
    stopping_ = true;
    {
      std::lock_guard lock(mutex_);
      if (polling_ != nullptr) polling_->TryCancel();
    }
    if (!thread_.joinable()) return false;
    thread_.join();
    return true;
  }

  void Loop() {
    int failures = 0;
    while (!stopping_) {
      v1::LeaseWorkRequest request;
      request.set_worker(name_);
      request.set_session_epoch(epoch_);
      request.set_wait_s(10);
      v1::LeaseWorkResponse lease;
      grpc::ClientContext context;
      {
        std::lock_guard lock(mutex_);
        polling_ = &context;
        if (stopping_) context.TryCancel();
      }
      const grpc::Status status = stub_->LeaseWork(&context, request, &lease);
      {
        std::lock_guard lock(mutex_);
        polling_ = nullptr;
      }
      if (IsOfDisk(status)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      if (!status.ok() && ++failures > 3) return;
      if (!status.ok() || !lease.has_job()) continue;
      {
        std::lock_guard lock(mutex_);
        if (remembers_) ++runs_[lease.job().name()];
      }
      v1::ReportTrialRequest report = measure_(lease.job());
      if (killed_) return;
      report.set_worker(name_);
      report.set_session_epoch(epoch_);
      report.set_lease_id(lease.lease_id());
      report.set_fencing_token(lease.fencing_token());
      report.set_attempt(lease.job().attempt());
      report.set_request_id(lease.lease_id() + "/report");
      const grpc::Status taken = Send(report);
      if (taken.ok()) ++jobs_done_;
      if (taken.error_code() == grpc::StatusCode::INVALID_ARGUMENT)
        GiveUp(std::move(report), taken.error_message());
    }
  }

  // Returns true if the coordinator's disk is full or fails.
  static bool IsOfDisk(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
           status.error_message().find("database") != std::string::npos;
  }

  // Sends a report again while the coordinator's disk fails.
  grpc::Status Send(const v1::ReportTrialRequest& report) {
    while (true) {
      v1::ReportTrialResponse response;
      grpc::ClientContext context;
      grpc::Status taken = stub_->ReportTrial(&context, report, &response);
      if (!IsOfDisk(taken) || stopping_ || killed_) return taken;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // Reports as a worker whose result was rejected as invalid.
  void GiveUp(v1::ReportTrialRequest report, const std::string& words) {
    report.clear_measurement();
    report.clear_calibration();
    report.set_outcome(v1::OUTCOME_FAILED);
    report.set_failure(v1::FAILURE_KIND_PROCESS);
    report.set_message(words);
    report.set_request_id(report.lease_id() + "/rejected");
    v1::ReportTrialResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->ReportTrial(&context, report, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  const Measure measure_;
  const std::string name_;
  std::int64_t epoch_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> killed_ = false;
  std::atomic<int> jobs_done_ = 0;
  std::mutex mutex_;
  std::atomic<bool> remembers_ = true;
  std::map<std::string, int> runs_;
  grpc::ClientContext* polling_ = nullptr;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace autocfg::server
