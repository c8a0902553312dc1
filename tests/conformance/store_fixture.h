// The fixture of the suites of what Store promises (store_*_suite.h): an empty store, in a file or in memory,
// and helpers to fill it. Include the suites in one test file and instantiate:
//   INSTANTIATE_TEST_SUITE_P(Name, StoreSuite, testing::Values(StoreMaker{...}), StoreMakerName);
//   INSTANTIATE_TEST_SUITE_P(Name, StoreRetentionSuite, testing::Values(StoreMaker{...}), StoreMakerName);
//   INSTANTIATE_TEST_SUITE_P(Name, StoreGangSuite, testing::Values(StoreMaker{...}), StoreMakerName);
//   INSTANTIATE_TEST_SUITE_P(Name, StoreFairnessSuite, testing::Values(StoreMaker{...}), StoreMakerName);
//   INSTANTIATE_TEST_SUITE_P(Name, StoreCalibrationSuite, testing::Values(StoreMaker{...}), StoreMakerName);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/store.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {

// How many rejected reports the stores of a StoreMaker keep.
inline constexpr std::int64_t kKeptRejections = 100;

struct StoreMaker {
  std::string name;
  // Creates an empty store that keeps kKeptRejections. Its files on disk live as long as the returned
  // pointer.
  std::function<std::shared_ptr<Store>()> make;
};

inline std::string StoreMakerName(const testing::TestParamInfo<StoreMaker>& info) { return info.param.name; }

class StoreSuite : public testing::TestWithParam<StoreMaker> {
 protected:
  void SetUp() override {
    store_ = GetParam().make();
    ASSERT_NE(store_, nullptr);
  }

  v1::Study NewStudy(const std::string& fingerprint = "f", const std::string& request_id = "") {
    v1::Study study;
    study.set_fingerprint(fingerprint);
    study.mutable_spec()->mutable_model()->set_name("tiny");
    study.set_owner("me");
    auto made = store_->CreateStudy(request_id, study, 100);
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }
  std::int64_t NewRunning(const std::string& fingerprint = "f") {
    const std::int64_t id = Id(NewStudy(fingerprint));
    SetState(id, v1::STUDY_STATE_RUNNING);
    return id;
  }
  static std::int64_t Id(const v1::Study& study) { return *ParseStudyName(study.name()); }
  static std::int64_t Number(const v1::Trial& trial) { return ParseTrialName(trial.name())->number; }
  void SetState(std::int64_t id, v1::StudyState state) {
    const absl::Status status = SetStudyState(*store_, id, state);
    ASSERT_TRUE(status.ok()) << status;
  }

  static v1::Job TrainJob(int ranks = 1) {
    v1::Job job;
    job.set_ranks(ranks);
    job.set_device("cpu");
    job.mutable_train()->set_steps(5);
    job.mutable_train()->set_warmup_steps_untimed(4);
    job.mutable_train()->set_record_breakdown(true);
    job.mutable_train()->mutable_plan()->set_pp(2);
    return job;
  }
  static v1::Job CalibrateJob() {
    v1::Job job;
    job.set_ranks(1);
    job.set_device("cpu");
    job.mutable_calibrate()->set_time_budget_s(1);
    job.mutable_calibrate()->add_ops()->set_kind("matmul");
    return job;
  }
  v1::Trial Enqueue(std::int64_t study, const std::string& plan, std::int64_t repeat = 0, int ranks = 1,
                    std::int64_t max_attempts = 2) {
    v1::Trial trial;
    trial.set_plan_text(plan);
    trial.set_repeat(repeat);
    trial.mutable_plan()->set_tp(ranks);
    trial.mutable_predicted()->set_step_time_s(0.5);
    auto made = store_->EnqueueTrial(study, trial, TrainJob(ranks), max_attempts);
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }
  std::int64_t Register(const std::string& worker = "workers/a", const std::string& boot = "boot1",
                        int slots = 4, double now = 100) {
    v1::RegisterWorkerRequest request;
    request.set_worker(worker);
    request.set_boot_id(boot);
    request.mutable_inventory()->set_slots(slots);
    auto epoch = store_->RegisterWorker(request, now);
    EXPECT_TRUE(epoch.ok()) << epoch.status();
    return *epoch;
  }
  // Returns the lease that one worker gets if it alone asks for work.
  std::optional<Lease> Take(std::int64_t epoch, const std::string& worker = "workers/a", double now = 200) {
    const auto assignment = store_->LeaseJobs({{worker, epoch}}, {{worker, epoch}}, now, 10);
    EXPECT_TRUE(assignment.ok()) << assignment.status();
    if (!assignment.ok() || assignment->leases.empty()) return std::nullopt;
    EXPECT_EQ(assignment->leases.size(), 1u);
    return assignment->leases.front();
  }
  static v1::ReportTrialRequest Measured(const Lease& lease, std::int64_t epoch,
                                         const std::string& request_id,
                                         const std::string& worker = "workers/a") {
    v1::ReportTrialRequest report;
    report.set_worker(worker);
    report.set_session_epoch(epoch);
    report.set_lease_id(lease.lease_id);
    report.set_fencing_token(lease.fencing_token);
    report.set_attempt(lease.attempt);
    report.set_request_id(request_id);
    report.set_outcome(v1::OUTCOME_MEASURED);
    report.mutable_measurement()->add_step_time_s(0.25);
    report.mutable_measurement()->set_median_step_time_s(0.25);
    report.mutable_measurement()->set_device_s(3);
    return report;
  }
  // Returns a timeline of one action.
  static v1::StepTimeline TimelineFrom(int pipeline, double start_s) {
    v1::StepTimeline timeline;
    v1::TimelineRow& row = *timeline.add_rows();
    row.set_pipeline(pipeline);
    row.set_lane("compute");
    row.set_kind("forward");
    row.set_start_s(start_s);
    row.set_end_s(start_s + 1);
    return timeline;
  }
  static v1::ReportTrialRequest Ended(const Lease& lease, std::int64_t epoch, const std::string& request_id,
                                      v1::Outcome outcome, const std::string& message) {
    v1::ReportTrialRequest report = Measured(lease, epoch, request_id);
    report.set_outcome(outcome);
    report.set_message(message);
    report.clear_measurement();
    return report;
  }

  // --- Several workers ---

  WorkerSession Join(const std::string& id, int slots, const std::string& device_kind = "cpu",
                     const std::string& hostname = "", const std::string& boot = "boot1") {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/" + id);
    request.set_boot_id(boot);
    request.mutable_inventory()->set_slots(slots);
    request.mutable_inventory()->set_device_kind(device_kind);
    request.mutable_inventory()->set_hostname(hostname);
    const auto epoch = store_->RegisterWorker(request, 100);
    EXPECT_TRUE(epoch.ok()) << epoch.status();
    return {request.worker(), *epoch};
  }
  static std::vector<WorkerSession> Both(std::vector<WorkerSession> waiting,
                                         const std::vector<WorkerSession>& busy) {
    waiting.insert(waiting.end(), busy.begin(), busy.end());
    return waiting;
  }
  Assignment GiveOut(const std::vector<WorkerSession>& waiting, const std::vector<WorkerSession>& busy = {},
                     double now = 200, bool keeps = true) {
    auto assignment = store_->LeaseJobs(waiting, Both(waiting, busy), now, 10, keeps);
    EXPECT_TRUE(assignment.ok()) << assignment.status();
    return assignment.ok() ? *std::move(assignment) : Assignment();
  }
  // Returns "study: sentence" of each study that waits.
  std::vector<std::string> Waits(const std::vector<WorkerSession>& waiting,
                                 const std::vector<WorkerSession>& busy = {}, bool keeps = true,
                                 double now = 200) {
    const auto studies = store_->WaitingStudies(waiting, Both(waiting, busy), now, keeps);
    EXPECT_TRUE(studies.ok()) << studies.status();
    std::vector<std::string> sentences;
    if (!studies.ok()) return sentences;
    for (const WaitingStudy& each : *studies)
      sentences.push_back(fmt::format("{}: {}", each.job.study, each.sentence));
    return sentences;
  }
  // Returns "worker:ranks" of each lease, in order.
  static std::vector<std::string> Shares(const Assignment& assignment) {
    std::vector<std::string> shares;
    for (const Lease& lease : assignment.leases)
      shares.push_back(fmt::format("{}:{}", lease.session.worker.substr(8), lease.ranks));
    return shares;
  }
  v1::Trial EnqueueJob(std::int64_t study, const std::string& plan, const v1::Job& job,
                       std::int64_t max_attempts = 2) {
    v1::Trial trial;
    trial.set_plan_text(plan);
    auto made = store_->EnqueueTrial(study, trial, job, max_attempts);
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }
  static v1::ReportTrialRequest ReportOf(const Lease& lease, v1::Outcome outcome,
                                         const std::string& message = "",
                                         v1::FailureKind failure = v1::FAILURE_KIND_UNSPECIFIED) {
    v1::ReportTrialRequest report =
        Measured(lease, lease.session.epoch, lease.lease_id + "/report", lease.session.worker);
    report.set_outcome(outcome);
    report.set_message(message);
    report.set_failure(failure);
    if (outcome != v1::OUTCOME_MEASURED) report.clear_measurement();
    return report;
  }
  v1::LeaseCommand Renew(const Lease& lease, double now = 201) {
    const auto command = store_->RenewLease(lease.session.worker, lease.session.epoch, lease.lease_id,
                                            lease.fencing_token, now, 10);
    EXPECT_TRUE(command.ok()) << command.status();
    return command.ok() ? *command : v1::LEASE_COMMAND_UNSPECIFIED;
  }
  bool Held(const Lease& lease) { return store_->FindShare(lease.lease_id, lease.fencing_token).ok(); }

  v1::Trial Trial(std::int64_t study, std::int64_t number) {
    auto trial = store_->GetTrial(study, number);
    EXPECT_TRUE(trial.ok()) << trial.status();
    return *trial;
  }
  std::int64_t Rejected() { return *store_->RejectedReports(); }
  std::int64_t Cursor(std::int64_t study) { return *store_->ChangeCursor(study); }

  std::shared_ptr<Store> store_;
};

}  // namespace autocfg::server
