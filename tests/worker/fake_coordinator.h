// A coordinator controlled by the test: parks calls like the real one, hands out queued jobs, and records
// what it receives. Thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"

namespace autocfg::worker {

class FakeCoordinator final : public v1::WorkerService::Service {
 public:
  using Sessions = std::map<std::string, std::int64_t>;  // epoch of each registered worker

  // `sessions`: sessions of the previous coordinator that this one continues, as with the same database.
  FakeCoordinator(const std::string& address, double lease_s, Sessions sessions = {})
      : lease_s_(lease_s), epochs_(std::move(sessions)) {
    for (const auto& [worker, epoch] : epochs_) last_epoch_ = std::max(last_epoch_, epoch);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    server_->Shutdown(std::chrono::system_clock::now());
  }

  // Actions of the test.

  // For the next worker that polls, or the named one.
  void Queue(v1::LeaseWorkResponse lease, const std::string& worker = "") {
    absl::MutexLock lock(&mutex_);
    lease.mutable_job()->set_attempt(1);
    lease.set_lease_id(fmt::format("lease-{}", ++leases_));
    lease.set_fencing_token(leases_);
    queue_.emplace_back(worker, std::move(lease));
  }
  void Queue(const v1::Job& job) {
    v1::LeaseWorkResponse lease;
    *lease.mutable_job() = job;
    Queue(lease);
  }
  void Say(v1::LeaseCommand command) {
    Set([&] { command_ = command; });
  }
  void RefuseRenewalsOf(const std::string& lease) {
    Set([&] { refused_ = lease; });
  }
  void FailReports(int count, grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
    Set([&] {
      failing_reports_ = count;
      report_failure_ = code;
    });
  }
  void FailRegistrations(int count, grpc::StatusCode code, const std::string& words = "not now") {
    Set([&] {
      failing_registrations_ = count;
      registration_failure_ = {code, words};
    });
  }
  // Ends calls for work with this status until it is OK.
  void FailPolls(const grpc::Status& status) {
    Set([&] { poll_failure_ = status; });
  }
  // Rejects results as invalid with these words; accepts reports of failures.
  void RejectResults(const std::string& words) {
    Set([&] { rejection_ = words; });
  }
  void Drain() {
    Set([&] { draining_ = true; });
  }
  void ForgetWorkers() {
    Set([&] { epochs_.clear(); });
  }
  void Supersede(const std::string& worker) {
    Set([&] { ++epochs_[worker]; });
  }
  // Fails the in-flight gatherings of jobs.
  void AbortRendezvous() {
    Set([&] { aborted_ = true; });
  }

  // Observations.

  // Waits for the report with this index.
  v1::ReportTrialRequest AwaitReport(std::size_t number = 0) {
    EXPECT_TRUE(Eventually([&] { return reports_.size() > number; })) << "no report";
    absl::MutexLock lock(&mutex_);
    return reports_.size() > number ? reports_[number] : v1::ReportTrialRequest();
  }
  // Waits for the report of this worker.
  v1::ReportTrialRequest AwaitReportOf(const std::string& worker) {
    const auto find = [&] {
      return std::find_if(reports_.begin(), reports_.end(),
                          [&](const auto& report) { return report.worker() == worker; });
    };
    EXPECT_TRUE(Eventually([&] { return find() != reports_.end(); })) << "no report";
    absl::MutexLock lock(&mutex_);
    return find() != reports_.end() ? *find() : v1::ReportTrialRequest();
  }
  bool AwaitRenewals(int count) {
    return Eventually([&] { return renewals_ >= count; });
  }
  bool AwaitReportCalls(int count) {
    return Eventually([&] { return report_calls_ >= count; });
  }
  bool AwaitRegistrations(std::size_t count) {
    return Eventually([&] { return registrations_.size() >= count; });
  }
  bool AwaitDeregistration() {
    return Eventually([&] { return deregistered_; });
  }
  // Waits until a poll is parked that lists exactly these leases, in any order.
  bool AwaitPollWith(const std::multiset<std::string>& leases) {
    return Eventually([&] {
      return parked_ && parked_->lists_held_leases() &&
             std::multiset<std::string>(parked_->held_leases().begin(), parked_->held_leases().end()) ==
                 leases;
    });
  }
  // Waits until a poll is parked that says when its worker leaves, and returns it.
  v1::LeaseWorkRequest AwaitPollOfOneThatLeaves() {
    EXPECT_TRUE(Eventually([&] { return parked_ && parked_->has_leaves_in_s(); })) << "no such poll";
    absl::MutexLock lock(&mutex_);
    return parked_.value_or(v1::LeaseWorkRequest());
  }
  int reports() {
    return Get([&] { return static_cast<int>(reports_.size()); });
  }
  int report_calls() {
    return Get([&] { return report_calls_; });
  }
  int renewals() {
    return Get([&] { return renewals_; });
  }
  double last_renewal_wait_s() {
    return Get([&] { return last_renewal_wait_s_; });
  }
  bool deregistered() {
    return Get([&] { return deregistered_; });
  }
  int most_parked_polls() {
    return Get([&] { return most_parked_; });
  }
  Sessions sessions() {
    return Get([&] { return epochs_; });
  }
  std::vector<v1::RegisterWorkerRequest> registrations() {
    return Get([&] { return registrations_; });
  }
  std::vector<v1::AppendTrialLogRequest> logs() {
    return Get([&] { return logs_; });
  }

  // The service.

  grpc::Status RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest* request,
                              v1::RegisterWorkerResponse* response) override {
    absl::MutexLock lock(&mutex_);
    registrations_.push_back(*request);
    if (failing_registrations_ > 0) {
      --failing_registrations_;
      return registration_failure_;
    }
    response->set_worker(request->worker());
    response->set_session_epoch(epochs_[request->worker()] = ++last_epoch_);
    response->set_lease_duration_s(lease_s_);
    return grpc::Status::OK;
  }

  grpc::Status LeaseWork(grpc::ServerContext* context, const v1::LeaseWorkRequest* request,
                         v1::LeaseWorkResponse* response) override {
    const absl::Time end = absl::Now() + absl::Seconds(request->wait_s());
    absl::MutexLock lock(&mutex_);
    parked_ = *request;
    most_parked_ = std::max(most_parked_, ++parked_polls_[request->worker()]);
    grpc::Status status = grpc::Status::OK;
    while (absl::Now() < end && !context->IsCancelled() && !closing_) {
      const auto epoch = epochs_.find(request->worker());
      if (epoch == epochs_.end()) {
        status = {grpc::StatusCode::NOT_FOUND, "not registered"};
        break;
      }
      if (request->session_epoch() != epoch->second) {
        status = {grpc::StatusCode::FAILED_PRECONDITION, "old epoch"};
        break;
      }
      if (!poll_failure_.ok()) {
        status = poll_failure_;
        break;
      }
      if (draining_) {
        response->set_drain(true);
        break;
      }
      const auto mine = std::find_if(queue_.begin(), queue_.end(), [&](const auto& queued) {
        return queued.first.empty() || queued.first == request->worker();
      });
      if (mine != queue_.end()) {
        *response = std::move(mine->second);
        queue_.erase(mine);
        break;
      }
      Look();
    }
    --parked_polls_[request->worker()];
    parked_.reset();
    return closing_ ? grpc::Status{grpc::StatusCode::UNAVAILABLE, "ending"} : status;
  }

  grpc::Status RenewLease(grpc::ServerContext* context, const v1::RenewLeaseRequest* request,
                          v1::RenewLeaseResponse* response) override {
    const absl::Time end = absl::Now() + absl::Seconds(request->wait_s());
    absl::MutexLock lock(&mutex_);
    ++renewals_;
    last_renewal_wait_s_ = request->wait_s();
    const auto refused = [&] { return refused_ == request->lease_id(); };
    while (command_ == v1::LEASE_COMMAND_CONTINUE && !refused() && absl::Now() < end &&
           !context->IsCancelled() && !closing_)
      Look();
    if (refused()) return {grpc::StatusCode::FAILED_PRECONDITION, "not yours any more"};
    if (closing_) return {grpc::StatusCode::UNAVAILABLE, "ending"};
    response->set_command(command_);
    return grpc::Status::OK;
  }

  // Like the real one: names must agree, and all shares must contribute values.
  grpc::Status Rendezvous(grpc::ServerContext* context, const v1::RendezvousRequest* request,
                          v1::RendezvousResponse* response) override {
    absl::MutexLock lock(&mutex_);
    Gathering& gathering = gatherings_[request->sequence()];
    if (gathering.name.empty()) gathering.name = request->name();
    if (gathering.name != request->name())
      return {grpc::StatusCode::INVALID_ARGUMENT,
              fmt::format("'{}' is gathered where others gather '{}'", request->name(), gathering.name)};
    gathering.values[request->lease_id()] = {request->values().begin(), request->values().end()};
    while (gathering.values.size() < 2 && !aborted_ && !context->IsCancelled() && !closing_) Look();
    if (aborted_ || closing_ || context->IsCancelled())
      return {grpc::StatusCode::ABORTED, "the job is being stopped"};
    // Leases are ordered by rank.
    for (const auto& [lease, values] : gathering.values) {
      for (const std::string& value : values) response->add_values(value);
    }
    return grpc::Status::OK;
  }

  grpc::Status AppendTrialLog(grpc::ServerContext*, const v1::AppendTrialLogRequest* request,
                              v1::AppendTrialLogResponse*) override {
    absl::MutexLock lock(&mutex_);
    logs_.push_back(*request);
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no room: the report comes all the same"};
  }

  grpc::Status ReportTrial(grpc::ServerContext*, const v1::ReportTrialRequest* request,
                           v1::ReportTrialResponse*) override {
    absl::MutexLock lock(&mutex_);
    ++report_calls_;
    if (failing_reports_ > 0) {
      --failing_reports_;
      return {report_failure_, "in a moment"};
    }
    if (!rejection_.empty() && request->outcome() == v1::OUTCOME_MEASURED)
      return {grpc::StatusCode::INVALID_ARGUMENT, rejection_};
    reports_.push_back(*request);
    return grpc::Status::OK;
  }

  grpc::Status DeregisterWorker(grpc::ServerContext*, const v1::DeregisterWorkerRequest* request,
                                v1::DeregisterWorkerResponse*) override {
    absl::MutexLock lock(&mutex_);
    deregistered_ = true;
    epochs_.erase(request->worker());
    return grpc::Status::OK;
  }

 private:
  struct Gathering {
    std::string name;
    std::map<std::string, std::vector<std::string>> values;  // by lease
  };

  // Releases the mutex briefly, because some conditions do not signal it (such as a departed caller).
  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    static const bool never = false;
    mutex_.AwaitWithTimeout(absl::Condition(&never), absl::Milliseconds(5));
  }
  template <typename Change>
  void Set(Change change) {
    absl::MutexLock lock(&mutex_);
    change();
  }
  template <typename Read>
  std::invoke_result_t<Read> Get(Read read) {
    absl::MutexLock lock(&mutex_);
    return read();
  }
  bool Eventually(const std::function<bool()>& condition) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&condition, &std::function<bool()>::operator()),
                                   absl::Seconds(60));
  }

  const double lease_s_;
  std::unique_ptr<grpc::Server> server_;
  absl::Mutex mutex_;  // guards everything below
  std::deque<std::pair<std::string, v1::LeaseWorkResponse>> queue_;
  Sessions epochs_;
  std::map<std::string, int> parked_polls_;
  std::map<std::int64_t, Gathering> gatherings_;
  std::optional<v1::LeaseWorkRequest> parked_;  // the last one
  std::vector<v1::ReportTrialRequest> reports_;
  std::vector<v1::RegisterWorkerRequest> registrations_;
  std::vector<v1::AppendTrialLogRequest> logs_;
  std::string refused_;    // lease whose renewals are refused
  std::string rejection_;  // message for rejected results
  v1::LeaseCommand command_ = v1::LEASE_COMMAND_CONTINUE;
  std::int64_t last_epoch_ = 0;
  int leases_ = 0;
  int renewals_ = 0;
  double last_renewal_wait_s_ = -1;
  int report_calls_ = 0;
  int failing_reports_ = 0;
  grpc::StatusCode report_failure_ = grpc::StatusCode::UNAVAILABLE;
  int failing_registrations_ = 0;
  grpc::Status registration_failure_;
  grpc::Status poll_failure_;
  int most_parked_ = 0;
  bool draining_ = false;
  bool aborted_ = false;
  bool deregistered_ = false;
  bool closing_ = false;
};

}  // namespace autocfg::worker
