// What every Store must do. Include it in one test file and instantiate:
//   INSTANTIATE_TEST_SUITE_P(Name, StoreSuite, testing::Values(StoreMaker{...}), StoreMakerName);
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
#include "server/resource_names.h"
#include "server/store/store.h"

namespace autocfg {

struct StoreMaker {
  std::string name;
  // An empty store; what it needs on disk lasts as long as the returned pointer.
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
    auto study = store_->ModifyStudy(id, [&](v1::Study& edited) {
      edited.set_state(state);
      return absl::OkStatus();
    });
    ASSERT_TRUE(study.ok()) << study.status();
  }

  static v1::Job TrainJob(int ranks = 1) {
    v1::Job job;
    job.set_ranks(ranks);
    job.set_device("cpu");
    job.mutable_train()->set_steps(5);
    return job;
  }
  static v1::Job CalibrateJob() {
    v1::Job job;
    job.set_ranks(1);
    job.set_device("cpu");
    job.mutable_calibrate()->set_time_budget_s(1);
    return job;
  }
  v1::Trial Enqueue(std::int64_t study, const std::string& plan, std::int64_t repeat = 0, int ranks = 1,
                    std::int64_t max_attempts = 2) {
    v1::Trial trial;
    trial.set_plan_text(plan);
    trial.set_repeat(repeat);
    trial.mutable_plan()->set_tp(ranks);
    trial.mutable_predicted()->set_step_time_s(0.5);
    auto made = store_->EnqueueTrial(study, trial, TrainJob(ranks), max_attempts, 101);
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
  // What one worker gets that is alone at work.
  std::optional<Lease> Take(std::int64_t epoch, const std::string& worker = "workers/a", double now = 200) {
    const auto assignment = store_->LeaseJobs({{worker, epoch}}, {{worker, epoch}}, now, 10);
    EXPECT_TRUE(assignment.ok()) << assignment.status();
    if (!assignment.ok() || assignment->leases.empty()) return std::nullopt;
    EXPECT_EQ(assignment->leases.size(), 1u);
    return assignment->leases.front();
  }
  static Report Measured(const Lease& lease, std::int64_t epoch, const std::string& request_id,
                         const std::string& worker = "workers/a") {
    Report report;
    report.worker = worker;
    report.session_epoch = epoch;
    report.lease_id = lease.lease_id;
    report.fencing_token = lease.fencing_token;
    report.attempt = lease.attempt;
    report.request_id = request_id;
    report.outcome = v1::OUTCOME_MEASURED;
    report.measurement.emplace();
    report.measurement->add_step_time_s(0.25);
    report.measurement->set_median_step_time_s(0.25);
    report.measurement->set_device_s(3);
    return report;
  }
  static Report Ended(const Lease& lease, std::int64_t epoch, const std::string& request_id,
                      v1::Outcome outcome, const std::string& message) {
    Report report = Measured(lease, epoch, request_id);
    report.outcome = outcome;
    report.message = message;
    report.measurement.reset();
    return report;
  }
  v1::Trial Trial(std::int64_t study, std::int64_t number) {
    auto trial = store_->GetTrial(study, number);
    EXPECT_TRUE(trial.ok()) << trial.status();
    return *trial;
  }
  std::int64_t Refused() { return *store_->RefusedReports(); }
  std::int64_t Cursor(std::int64_t study) { return *store_->ChangeCursor(study); }

  std::shared_ptr<Store> store_;
};

using testing::HasSubstr;

// --- Studies ---

TEST_P(StoreSuite, StudyIsKeptAsCreated) {
  const v1::Study made = NewStudy("abc");
  EXPECT_EQ(made.state(), v1::STUDY_STATE_CREATED);
  EXPECT_EQ(made.create_time_s(), 100);
  auto read = store_->GetStudy(Id(made));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->SerializeAsString(), made.SerializeAsString());
  EXPECT_EQ(read->spec().model().name(), "tiny");
  EXPECT_EQ(store_->GetStudy(Id(made) + 1).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, CreateIsIdempotentByRequestId) {
  const v1::Study first = NewStudy("abc", "r1");
  EXPECT_EQ(NewStudy("abc", "r1").name(), first.name());
  EXPECT_NE(NewStudy("abc", "r2").name(), first.name());
  EXPECT_NE(NewStudy("abc").name(), NewStudy("abc").name());
  v1::Study other;
  other.set_fingerprint("another");
  EXPECT_EQ(store_->CreateStudy("r1", other, 101).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->ListStudies(0, 100)->size(), 4u);
}

TEST_P(StoreSuite, ListsNewestFirstInPages) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Id(NewStudy()));
  std::vector<std::int64_t> seen;
  std::int64_t before = 0;
  while (true) {
    auto page = store_->ListStudies(before, 2);
    ASSERT_TRUE(page.ok());
    if (page->empty()) break;
    EXPECT_LE(page->size(), 2u);
    for (const v1::Study& study : *page) seen.push_back(Id(study));
    before = seen.back();
  }
  EXPECT_EQ(seen, std::vector<std::int64_t>(ids.rbegin(), ids.rend()));
}

TEST_P(StoreSuite, FindsTheNewestUnfinished) {
  EXPECT_FALSE(store_->FindUnfinished("f")->has_value());
  const std::int64_t a = NewRunning();
  const std::int64_t b = NewRunning();
  NewStudy("g");
  EXPECT_EQ(Id(**store_->FindUnfinished("f")), b);
  SetState(b, v1::STUDY_STATE_PAUSED);
  EXPECT_EQ(Id(**store_->FindUnfinished("f")), b);
  SetState(b, v1::STUDY_STATE_DONE);
  EXPECT_EQ(Id(**store_->FindUnfinished("f")), a);
  SetState(a, v1::STUDY_STATE_FAILED);
  EXPECT_FALSE(store_->FindUnfinished("f")->has_value());
}

TEST_P(StoreSuite, ListsStudiesByState) {
  const std::int64_t a = NewRunning();
  NewStudy();
  const std::int64_t b = NewRunning();
  EXPECT_EQ(*store_->StudiesInState(v1::STUDY_STATE_RUNNING), (std::vector<std::int64_t>{a, b}));
  EXPECT_TRUE(store_->StudiesInState(v1::STUDY_STATE_PAUSED)->empty());
}

TEST_P(StoreSuite, UpdateChangesWhatMayChange) {
  v1::Study study = NewStudy("abc");
  study.set_state(v1::STUDY_STATE_RUNNING);
  study.set_phase("measuring");
  study.set_eta_s(4);
  study.mutable_counts()->set_enumerated(7);
  study.mutable_best()->set_plan_text("tp=1");
  study.set_fingerprint("forged");
  study.set_owner("forged");
  study.mutable_spec()->mutable_model()->set_name("forged");
  study.set_create_time_s(1);
  ASSERT_TRUE(store_->UpdateStudy(study).ok());
  const v1::Study read = *store_->GetStudy(Id(study));
  EXPECT_EQ(read.state(), v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(read.phase(), "measuring");
  EXPECT_EQ(read.eta_s(), 4);
  EXPECT_EQ(read.counts().enumerated(), 7);
  EXPECT_EQ(read.best().plan_text(), "tp=1");
  EXPECT_EQ(read.fingerprint(), "abc");
  EXPECT_EQ(read.owner(), "me");
  EXPECT_EQ(read.spec().model().name(), "tiny");
  EXPECT_EQ(read.create_time_s(), 100);
  study.set_name("studies/999");
  EXPECT_EQ(store_->UpdateStudy(study).code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, AnEndStateIsNotLeft) {
  for (const v1::StudyState end : {v1::STUDY_STATE_DONE, v1::STUDY_STATE_FAILED, v1::STUDY_STATE_CANCELLED}) {
    v1::Study study = NewStudy();
    study.set_state(end);
    ASSERT_TRUE(store_->UpdateStudy(study).ok());
    study.set_message("why");
    EXPECT_TRUE(store_->UpdateStudy(study).ok());
    for (const v1::StudyState next :
         {v1::STUDY_STATE_RUNNING, v1::STUDY_STATE_CREATED, v1::STUDY_STATE_PAUSED}) {
      study.set_state(next);
      study.set_message("forged");
      EXPECT_EQ(store_->UpdateStudy(study).code(), absl::StatusCode::kFailedPrecondition);
    }
    EXPECT_EQ(store_->GetStudy(Id(study))->state(), end);
    EXPECT_EQ(store_->GetStudy(Id(study))->message(), "why");
  }
}

TEST_P(StoreSuite, ModifyIsOneTransactionAndIdempotent) {
  const std::int64_t id = Id(NewStudy());
  int calls = 0;
  const auto pause = [&](v1::Study& study) {
    ++calls;
    study.set_state(v1::STUDY_STATE_PAUSED);
    return absl::OkStatus();
  };
  ASSERT_TRUE(
      store_->ModifyStudy(id, pause, {.request_id = "m1", .add_wall_s = 0, .add_plan_cpu_s = 0}).ok());
  SetState(id, v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(
      store_->ModifyStudy(id, pause, {.request_id = "m1", .add_wall_s = 0, .add_plan_cpu_s = 0})->state(),
      v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(
      store_->ModifyStudy(Id(NewStudy()), pause, {.request_id = "m1", .add_wall_s = 0, .add_plan_cpu_s = 0})
          .status()
          .code(),
      absl::StatusCode::kAlreadyExists);
  const std::int64_t cursor = Cursor(id);
  auto failed = store_->ModifyStudy(id, [](v1::Study& study) {
    study.set_message("half");
    return absl::AbortedError("no");
  });
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->GetStudy(id)->message(), "");
  EXPECT_EQ(Cursor(id), cursor);
}

TEST_P(StoreSuite, DeleteTakesAllAndIdsAreNotUsedAgain) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  EXPECT_EQ(store_->DeleteStudy(id).code(), absl::StatusCode::kFailedPrecondition);
  SetState(id, v1::STUDY_STATE_DONE);
  EXPECT_TRUE(store_->DeleteStudy(id, "d1").ok());
  EXPECT_TRUE(store_->DeleteStudy(id, "d1").ok());
  EXPECT_EQ(store_->DeleteStudy(id, "d2").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->GetStudy(id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ListTrials(id, 0, 10).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->GetTrial(id, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ChangeCursor(id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_GT(Id(NewStudy()), id);
}

// --- Trials and the queue ---

TEST_P(StoreSuite, TrialIsUniqueByPlanAndRepeat) {
  const std::int64_t id = NewRunning();
  const v1::Trial first = Enqueue(id, "tp=1");
  EXPECT_EQ(first.state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(first.name(), TrialName(id, 1));
  EXPECT_EQ(Enqueue(id, "tp=1").name(), first.name());
  EXPECT_EQ(Enqueue(id, "tp=1", 1).name(), TrialName(id, 2));
  EXPECT_EQ(Enqueue(id, "tp=2").name(), TrialName(id, 3));
  EXPECT_EQ(Enqueue(NewRunning(), "tp=1").name().substr(0, 8), "studies/");
  EXPECT_EQ(store_->ListTrials(id, 0, 100)->size(), 3u);
  // One job a trial: the second request queued nothing.
  const std::int64_t epoch = Register("workers/a", "b", 100);
  std::set<std::string> names;
  while (auto lease = Take(epoch)) EXPECT_TRUE(names.insert(lease->job.name()).second);
  EXPECT_EQ(names.size(), 4u);
}

TEST_P(StoreSuite, EnqueueRefusesWhatIsWrong) {
  v1::Trial trial;
  trial.set_plan_text("tp=1");
  EXPECT_EQ(store_->EnqueueTrial(77, trial, TrainJob(), 2, 1).status().code(), absl::StatusCode::kNotFound);
  const std::int64_t id = NewRunning();
  EXPECT_EQ(store_->EnqueueTrial(id, trial, v1::Job(), 2, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(0), 2, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(), 0, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  trial.clear_plan_text();
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(), 2, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  SetState(id, v1::STUDY_STATE_DONE);
  trial.set_plan_text("tp=1");
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(), 2, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->EnqueueCalibration(id, CalibrateJob(), 2, 1).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreSuite, ListsTrialsAscendingInPages) {
  const std::int64_t id = NewRunning();
  for (int i = 1; i <= 5; ++i) Enqueue(id, fmt::format("mbs={}", i));
  const auto page = *store_->ListTrials(id, 1, 3);
  ASSERT_EQ(page.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Number(page[static_cast<std::size_t>(i)]), i + 2);
    EXPECT_EQ(page[static_cast<std::size_t>(i)].plan_text(), fmt::format("mbs={}", i + 2));
    EXPECT_EQ(page[static_cast<std::size_t>(i)].predicted().step_time_s(), 0.5);
  }
  EXPECT_TRUE(store_->ListTrials(id, 5, 3)->empty());
}

TEST_P(StoreSuite, LeasesOldestFirstOfRunningStudiesThatFit) {
  const std::int64_t created = Id(NewStudy());
  Enqueue(created, "tp=1");
  const std::int64_t a = NewRunning();
  const std::int64_t b = NewRunning();
  Enqueue(a, "tp=8", 0, 8);
  ASSERT_TRUE(store_->EnqueueCalibration(b, CalibrateJob(), 2, 1).ok());
  ASSERT_TRUE(store_->EnqueueCalibration(b, CalibrateJob(), 2, 1).ok());
  Enqueue(a, "tp=1");
  const std::int64_t epoch = Register("workers/a", "b", 4);
  auto first = Take(epoch);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->job.name(), CalibrationName(b));
  EXPECT_EQ(first->key.trial, 0);
  EXPECT_TRUE(first->job.has_calibrate());
  EXPECT_EQ(first->job.attempt(), 1);
  EXPECT_EQ(first->expires_s, 210);
  auto second = Take(epoch);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->key.study, a);
  EXPECT_EQ(second->job.name(), TrialName(a, 2));
  EXPECT_FALSE(Take(epoch));
  SetState(created, v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(Take(epoch)->key.study, created);
}

TEST_P(StoreSuite, AWorkerHoldsNoMoreRanksThanSlots) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=2", 0, 2);
  Enqueue(id, "tp=4", 0, 4);
  const std::int64_t epoch = Register("workers/a", "b", 4);
  const auto first = Take(epoch);
  ASSERT_TRUE(first);
  EXPECT_FALSE(Take(epoch));
  ASSERT_TRUE(store_->Report(Measured(*first, epoch, "r"), 201).ok());
  EXPECT_EQ(Take(epoch)->job.ranks(), 4);
}

TEST_P(StoreSuite, PausedStudiesAreNotLeased) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  SetState(id, v1::STUDY_STATE_PAUSED);
  const std::int64_t epoch = Register();
  EXPECT_FALSE(Take(epoch));
  SetState(id, v1::STUDY_STATE_RUNNING);
  EXPECT_TRUE(Take(epoch));
}

TEST_P(StoreSuite, LeasingNeedsTheCurrentSession) {
  Enqueue(NewRunning(), "tp=1");
  const auto check = [&](const std::string& worker, std::int64_t epoch) {
    return store_->CheckSession({worker, epoch}).code();
  };
  EXPECT_EQ(check("workers/none", 1), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Take(1, "workers/none"));
  const std::int64_t old = Register();
  EXPECT_EQ(Register(), old);
  EXPECT_EQ(check("workers/a", old), absl::StatusCode::kOk);
  const std::int64_t epoch = Register("workers/a", "boot2");
  EXPECT_GT(epoch, old);
  EXPECT_EQ(check("workers/a", old), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Take(old));
  EXPECT_TRUE(store_->DeregisterWorker("workers/a", epoch, 1).ok());
  EXPECT_EQ(check("workers/a", epoch), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Take(epoch));
  EXPECT_EQ(store_->DeregisterWorker("workers/a", epoch, 1).code(), absl::StatusCode::kFailedPrecondition);
  const std::int64_t next = Register("workers/a", "boot2");
  EXPECT_GT(next, epoch);
  EXPECT_TRUE(Take(next));
}

TEST_P(StoreSuite, EachJobGoesToOneOfManyWorkersAndTokensRise) {
  const std::int64_t id = NewRunning();
  constexpr int kJobs = 60;
  constexpr int kWorkers = 4;
  for (int i = 0; i < kJobs; ++i) Enqueue(id, fmt::format("mbs={}", i + 1));
  std::vector<std::int64_t> epochs;
  for (int w = 0; w < kWorkers; ++w) epochs.push_back(Register(fmt::format("workers/{}", w), "b", kJobs));
  std::vector<std::vector<Lease>> taken(kWorkers);
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      while (true) {
        const auto lease = Take(epochs[static_cast<std::size_t>(w)], fmt::format("workers/{}", w));
        if (!lease) break;
        taken[static_cast<std::size_t>(w)].push_back(*lease);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> trials, tokens;
  std::set<std::string> ids;
  for (const auto& leases : taken) {
    std::int64_t last = 0;
    for (const Lease& lease : leases) {
      EXPECT_GT(lease.fencing_token, last);
      last = lease.fencing_token;
      trials.insert(lease.key.trial);
      tokens.insert(lease.fencing_token);
      ids.insert(lease.lease_id);
    }
  }
  EXPECT_EQ(trials.size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(tokens.size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(kJobs));
}

TEST_P(StoreSuite, FencingTokensRiseOverStudiesThatAreGone) {
  const std::int64_t a = NewRunning();
  Enqueue(a, "tp=1");
  const std::int64_t epoch = Register();
  const std::int64_t token = Take(epoch)->fencing_token;
  SetState(a, v1::STUDY_STATE_CANCELLED);
  ASSERT_TRUE(store_->DeleteStudy(a).ok());
  Enqueue(NewRunning(), "tp=1");
  EXPECT_GT(Take(epoch)->fencing_token, token);
}

// --- Reports ---

TEST_P(StoreSuite, ReportWritesTrialAttemptAndMeasurement) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r1"), 207).ok());
  const v1::Trial trial = Trial(id, 1);
  EXPECT_EQ(trial.state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(trial.measured().median_step_time_s(), 0.25);
  ASSERT_EQ(trial.attempts_size(), 1);
  EXPECT_EQ(trial.attempts(0).number(), 1);
  EXPECT_EQ(trial.attempts(0).worker(), "workers/a");
  EXPECT_EQ(trial.attempts(0).state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(trial.attempts(0).start_time_s(), 200);
  EXPECT_EQ(trial.attempts(0).end_time_s(), 207);
  EXPECT_EQ(store_->Usage(id)->device_s, 3);
  EXPECT_EQ(Refused(), 0);
}

TEST_P(StoreSuite, ReportIsIdempotentByRequestId) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  const Report report = Measured(lease, epoch, "r1");
  ASSERT_TRUE(store_->Report(report, 201).ok());
  const std::int64_t cursor = Cursor(id);
  EXPECT_TRUE(store_->Report(report, 202).ok());
  EXPECT_EQ(Cursor(id), cursor);
  EXPECT_EQ(Trial(id, 1).attempts(0).end_time_s(), 201);
  EXPECT_EQ(Refused(), 0);
}

TEST_P(StoreSuite, DuplicateReportIsRefusedAndRecorded) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r1"), 201).ok());
  Report second = Measured(lease, epoch, "r2");
  second.measurement->set_median_step_time_s(99);
  EXPECT_EQ(store_->Report(second, 202).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Trial(id, 1).measured().median_step_time_s(), 0.25);
  EXPECT_EQ(Refused(), 1);
}

TEST_P(StoreSuite, ForeignReportsAreRefusedAndHurtNobody) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  const std::int64_t epoch = Register();
  const std::int64_t other = Register("workers/b");
  const Lease lease = *Take(epoch);
  const Lease theirs = *Take(other, "workers/b");
  std::vector<Report> wrong(6, Measured(lease, epoch, ""));
  wrong[0].worker = "workers/b";
  wrong[1].session_epoch += 1;
  wrong[2].lease_id = "lease-nobody";
  wrong[3].fencing_token = theirs.fencing_token;
  wrong[4].attempt = 2;
  wrong[5].lease_id = theirs.lease_id;
  int n = 0;
  for (Report& report : wrong) {
    report.request_id = fmt::format("w{}", ++n);
    EXPECT_EQ(store_->Report(report, 201).code(), absl::StatusCode::kFailedPrecondition) << n;
    EXPECT_EQ(Refused(), n);
  }
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(store_->Report(Measured(lease, epoch, "right"), 202).ok());
  // The id of a request that was served cannot carry another lease's report.
  EXPECT_EQ(store_->Report(Measured(theirs, other, "right", "workers/b"), 203).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(store_->Report(Measured(theirs, other, "right2", "workers/b"), 204).ok());
}

TEST_P(StoreSuite, OutcomesAreStatesOfTheirOwn) {
  const std::int64_t id = NewRunning();
  const std::vector<std::pair<v1::Outcome, v1::TrialState>> cases = {
      {v1::OUTCOME_OUT_OF_MEMORY, v1::TRIAL_STATE_INFEASIBLE},
      {v1::OUTCOME_FAILED, v1::TRIAL_STATE_FAILED},
      {v1::OUTCOME_TIMED_OUT, v1::TRIAL_STATE_TIMED_OUT}};
  const std::int64_t epoch = Register();
  int n = 0;
  for (const auto& [outcome, state] : cases) {
    ++n;
    Enqueue(id, fmt::format("mbs={}", n));
    const Lease lease = *Take(epoch);
    ASSERT_TRUE(store_->Report(Ended(lease, epoch, fmt::format("r{}", n), outcome, "rank 0: why"), 205).ok());
    const v1::Trial trial = Trial(id, n);
    EXPECT_EQ(trial.state(), state);
    EXPECT_EQ(trial.message(), "rank 0: why");
    EXPECT_EQ(trial.attempts(0).state(), state);
    EXPECT_FALSE(trial.has_measured());
    EXPECT_FALSE(Take(epoch));  // an answer: not tried again
  }
  EXPECT_EQ(store_->Usage(id)->device_s, 15);  // three times one rank for five seconds
}

TEST_P(StoreSuite, AWorkerThatRefusesAJobLeavesItToTheNextAttempt) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");  // two attempts
  const std::int64_t epoch = Register();
  const Lease first = *Take(epoch);
  const Report refusal = Ended(first, epoch, "r1", v1::OUTCOME_REFUSED, "GPU 0 is not free");
  ASSERT_TRUE(store_->Report(refusal, 205).ok());
  ASSERT_TRUE(store_->Report(refusal, 206).ok()) << "the same report again";
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Trial(id, 1).message(), "GPU 0 is not free");
  const std::int64_t other = Register("workers/b");
  const Lease second = *Take(other, "workers/b", 210);
  EXPECT_EQ(second.attempt, 2);
  Report again = Ended(second, other, "r2", v1::OUTCOME_REFUSED, "nor here");
  again.worker = "workers/b";
  ASSERT_TRUE(store_->Report(again, 211).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_LOST);
  EXPECT_EQ(Trial(id, 1).message(), "nor here");
  EXPECT_FALSE(Take(epoch)) << "no attempt is left";
}

TEST_P(StoreSuite, AReportWithoutItsPayloadIsInvalid) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, 1).ok());
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease calibration = *Take(epoch);
  const Lease trial = *Take(epoch);
  EXPECT_EQ(store_->Report(Measured(calibration, epoch, "r1"), 1).code(), absl::StatusCode::kInvalidArgument);
  Report empty = Measured(trial, epoch, "r2");
  empty.measurement->clear_step_time_s();
  EXPECT_EQ(store_->Report(empty, 1).code(), absl::StatusCode::kInvalidArgument);
  empty.outcome = v1::OUTCOME_UNSPECIFIED;
  EXPECT_EQ(store_->Report(empty, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(store_->Report(Measured(trial, epoch, "r2"), 1).ok());
}

TEST_P(StoreSuite, CalibrationIsKept) {
  const std::int64_t id = NewRunning();
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_UNSPECIFIED);
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, 1).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_QUEUED);
  EXPECT_FALSE(store_->GetCalibration(id)->has_value());
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_RUNNING);
  Report report = Measured(lease, epoch, "r1");
  report.calibration.emplace();
  report.calibration->add_ops()->set_seconds(0.125);
  report.device_overhead_bytes = 4096;
  ASSERT_TRUE(store_->Report(report, 205).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_MEASURED);
  const auto calibration = *store_->GetCalibration(id);
  ASSERT_TRUE(calibration.has_value());
  EXPECT_EQ(calibration->device_overhead_bytes, 4096);
  ASSERT_EQ(calibration->result.ops_size(), 1);
  EXPECT_EQ(calibration->result.ops(0).seconds(), 0.125);
}

TEST_P(StoreSuite, FailedCalibrationSaysWhy) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, 1).ok());
  const std::int64_t epoch = Register();
  ASSERT_TRUE(store_->Report(Ended(*Take(epoch), epoch, "r1", v1::OUTCOME_FAILED, "rank 1: broke"), 2).ok());
  const auto state = *store_->CalibrationState(id);
  EXPECT_EQ(state.first, v1::TRIAL_STATE_FAILED);
  EXPECT_EQ(state.second, "rank 1: broke");
}

// --- Leases that end ---

TEST_P(StoreSuite, RenewalKeepsALease) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);  // until 210
  auto command = store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 209, 10);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(*command, v1::LEASE_COMMAND_CONTINUE);
  EXPECT_EQ(*store_->ExpireLeases(218.9), 0);
  EXPECT_EQ(*store_->ExpireLeases(219), 1);
  EXPECT_EQ(
      store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 219, 10).status().code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreSuite, RenewalIsTheHoldersAlone) {
  Enqueue(NewRunning(), "tp=1");
  const std::int64_t epoch = Register();
  const std::int64_t other = Register("workers/b");
  const Lease lease = *Take(epoch);
  const auto refused = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(store_->RenewLease("workers/b", other, lease.lease_id, lease.fencing_token, 1, 1).status().code(),
            refused);
  EXPECT_EQ(
      store_->RenewLease("workers/a", epoch + 1, lease.lease_id, lease.fencing_token, 1, 1).status().code(),
      refused);
  EXPECT_EQ(
      store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token + 1, 1, 1).status().code(),
      refused);
  EXPECT_EQ(store_->RenewLease("workers/a", epoch, "lease-no", lease.fencing_token, 1, 1).status().code(),
            refused);
  EXPECT_TRUE(store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 1, 1).ok());
}

TEST_P(StoreSuite, ExpiryQueuesAgainUntilNoAttemptIsLeft) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/2);
  Enqueue(id, "tp=2");
  const std::int64_t epoch = Register();
  const Lease first = *Take(epoch);
  EXPECT_EQ(*store_->ExpireLeases(300), 1);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Trial(id, 1).attempts(0).state(), v1::TRIAL_STATE_LOST);
  const Lease second = *Take(epoch);  // ahead of what was queued after it
  EXPECT_EQ(second.key.trial, 1);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_GT(second.fencing_token, first.fencing_token);
  // The first holder's late report meets the second's token.
  EXPECT_EQ(store_->Report(Measured(first, epoch, "late"), 301).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Refused(), 1);
  EXPECT_EQ(*store_->ExpireLeases(400), 1);
  const v1::Trial lost = Trial(id, 1);
  EXPECT_EQ(lost.state(), v1::TRIAL_STATE_LOST);
  EXPECT_EQ(lost.attempts_size(), 2);
  EXPECT_FALSE(lost.message().empty());
  EXPECT_EQ(Take(epoch)->key.trial, 2);
}

TEST_P(StoreSuite, ANewBootFreesTheLeasesOfTheOneBefore) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  const std::int64_t old = Register();
  const std::int64_t other = Register("workers/b");
  const Lease lease = *Take(old);
  Take(other, "workers/b");
  EXPECT_EQ(Register(), old);  // the same boot again frees nothing
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  const std::int64_t epoch = Register("workers/a", "boot2");
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_EQ(store_->Report(Measured(lease, old, "r"), 201).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Report(Measured(lease, epoch, "r"), 201).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Take(epoch)->attempt, 2);
}

TEST_P(StoreSuite, AWorkerThatStopsCostsNoAttempt) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/1);
  std::int64_t epoch = 0;
  for (int i = 1; i <= 4; ++i) {
    epoch = Register();
    const Lease lease = *Take(epoch);
    EXPECT_EQ(lease.attempt, i);
    if (i % 2 == 0) {
      ASSERT_TRUE(
          store_->Report(Ended(lease, epoch, fmt::format("c{}", i), v1::OUTCOME_CANCELLED, "stopping"), 205)
              .ok());
    }
    ASSERT_TRUE(store_->DeregisterWorker("workers/a", epoch, 206).ok());
    EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  }
  epoch = Register();
  ASSERT_TRUE(store_->Report(Measured(*Take(epoch), epoch, "r"), 207).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_MEASURED);
}

// --- Cancelling ---

TEST_P(StoreSuite, CancelJobsEndsQueuedAndTellsRunning) {
  const std::int64_t id = NewRunning();
  const std::int64_t other = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  Enqueue(other, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->CancelJobs(id, 201).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(*store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 202, 10),
            v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(Take(epoch)->key.study, other);
  // The end of the cancelled attempt is taken, and does not bring the trial back.
  EXPECT_TRUE(store_->Report(Ended(lease, epoch, "c", v1::OUTCOME_CANCELLED, "cancelled"), 203).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(Trial(id, 1).attempts(0).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(Refused(), 0);
}

TEST_P(StoreSuite, ALateResultOfACancelledTrialDoesNotBringItBack) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  const std::int64_t epoch = Register();
  const Lease a = *Take(epoch);
  Take(epoch);
  SetState(id, v1::STUDY_STATE_CANCELLED);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_TRUE(store_->Report(Measured(a, epoch, "r"), 203).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_FALSE(Trial(id, 1).has_measured());
  EXPECT_EQ(*store_->ExpireLeases(400), 1);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_FALSE(Take(epoch));
}

TEST_P(StoreSuite, CancelledCalibrationIsNotQueuedAgain) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, 1).ok());
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->CancelJobs(id, 2).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_CANCELLED);
  EXPECT_TRUE(store_->Report(Ended(lease, epoch, "c", v1::OUTCOME_CANCELLED, ""), 3).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_CANCELLED);
}

// --- Logs, usage, changes ---

TEST_P(StoreSuite, LogsNeedALeaseAndEndSomewhere) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  EXPECT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, "line\n").ok());
  EXPECT_EQ(store_->AppendLog(lease.lease_id, lease.fencing_token + 1, "x").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->AppendLog("lease-no", lease.fencing_token, "x").code(),
            absl::StatusCode::kFailedPrecondition);
  const std::string big(600 << 10, 'x');
  EXPECT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, big).ok());
  EXPECT_EQ(store_->AppendLog(lease.lease_id, lease.fencing_token, big).code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 203).ok());
  EXPECT_EQ(store_->AppendLog(lease.lease_id, lease.fencing_token, "x").code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreSuite, UsageAddsUp) {
  const std::int64_t id = Id(NewStudy());
  const auto nothing = [](v1::Study&) { return absl::OkStatus(); };
  ASSERT_TRUE(
      store_->ModifyStudy(id, nothing, {.request_id = "", .add_wall_s = 1.5, .add_plan_cpu_s = 0.25}).ok());
  ASSERT_TRUE(
      store_->ModifyStudy(id, nothing, {.request_id = "", .add_wall_s = 2, .add_plan_cpu_s = 0.5}).ok());
  EXPECT_EQ(store_->Usage(id)->wall_s, 3.5);
  EXPECT_EQ(store_->Usage(id)->plan_cpu_s, 0.75);
  EXPECT_EQ(store_->Usage(id)->device_s, 0);
  EXPECT_EQ(store_->Usage(id + 1).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, CursorRisesWithEveryChangeOfTheStudyAlone) {
  const std::int64_t id = NewRunning();
  const std::int64_t other = NewRunning();
  const std::int64_t epoch = Register();
  const std::int64_t still = Cursor(other);
  std::int64_t last = Cursor(id);
  const auto rose = [&] {
    const std::int64_t now = Cursor(id);
    const bool risen = now > last;
    last = now;
    return risen;
  };
  Enqueue(id, "tp=1");
  EXPECT_TRUE(rose());
  Enqueue(id, "tp=1");
  EXPECT_FALSE(rose());
  const Lease lease = *Take(epoch);
  EXPECT_TRUE(rose());
  store_->AppendLog(lease.lease_id, lease.fencing_token, "x").IgnoreError();
  EXPECT_FALSE(rose());
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 1).ok());
  EXPECT_TRUE(rose());
  SetState(id, v1::STUDY_STATE_DONE);
  EXPECT_TRUE(rose());
  EXPECT_EQ(Cursor(other), still);
}

TEST_P(StoreSuite, ChangesAfterACursorAreExactlyWhatChanged) {
  const std::int64_t id = NewRunning();
  for (int i = 1; i <= 3; ++i) Enqueue(id, fmt::format("mbs={}", i));
  auto all = *store_->ChangesAfter(id, 0, 100);
  ASSERT_EQ(all.trials.size(), 3u);
  EXPECT_EQ(all.cursor, Cursor(id));
  EXPECT_EQ(all.trials.back().first, all.cursor);
  auto page = *store_->ChangesAfter(id, 0, 2);
  ASSERT_EQ(page.trials.size(), 2u);
  auto rest = *store_->ChangesAfter(id, page.trials.back().first, 2);
  ASSERT_EQ(rest.trials.size(), 1u);
  EXPECT_EQ(Number(rest.trials[0].second), 3);
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 1).ok());
  auto changed = *store_->ChangesAfter(id, all.cursor, 100);
  ASSERT_EQ(changed.trials.size(), 1u);
  EXPECT_EQ(changed.trials[0].second.state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(changed.study.name(), StudyName(id));
  EXPECT_TRUE(store_->ChangesAfter(id, Cursor(id), 100)->trials.empty());
}

TEST_P(StoreSuite, ARefusedWriteIsNoFailureOfTheStorage) {
  EXPECT_TRUE(store_->Health().ok());
  EXPECT_FALSE(store_->DeleteStudy(99).ok());
  EXPECT_FALSE(store_->AppendLog("lease-no", 1, "x").ok());
  EXPECT_TRUE(store_->Health().ok());
}

TEST_P(StoreSuite, TheListenerHearsOfChangesOnly) {
  int heard = 0;
  store_->OnChange([&] { ++heard; });
  const std::int64_t id = NewRunning();
  EXPECT_EQ(heard, 2);
  Enqueue(id, "tp=1");
  EXPECT_EQ(heard, 3);
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  EXPECT_EQ(heard, 3);
  const Lease lease = *Take(epoch);
  EXPECT_EQ(heard, 4);
  EXPECT_FALSE(Take(epoch));
  store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 1, 10).IgnoreError();
  EXPECT_EQ(*store_->ExpireLeases(5), 0);
  EXPECT_EQ(heard, 4);
  EXPECT_EQ(*store_->ExpireLeases(50), 1);
  EXPECT_EQ(heard, 5);
}

}  // namespace autocfg
