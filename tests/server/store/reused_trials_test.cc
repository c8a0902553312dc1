// Which measured trials a later study reuses, and what is stored of it.
#include <functional>
#include <string>

#include "server/store/op_times_key.h"
#include "server/store/sqlite/check.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/conformance/store_fixture.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::IsEmpty;

constexpr double kHour = 3600;

class ReusedTrialsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenSqliteStore(dir_.File("a.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    a_ = Join("a", Machine());
    first_ = NewRunning();
  }

  static v1::Inventory Machine(const std::string& build = "1.0+abc") {
    v1::Inventory inventory;
    inventory.set_slots(4);
    inventory.set_device_kind("cpu");
    inventory.set_device_fingerprint("cpu X");
    inventory.set_physical_cores(4);
    inventory.set_hostname("one");
    inventory.set_build_id(build);
    return inventory;
  }
  WorkerSession Join(const std::string& id, const v1::Inventory& inventory) {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/" + id);
    request.set_boot_id("boot");
    *request.mutable_inventory() = inventory;
    const auto epoch = store_->RegisterWorker(request, 100);
    EXPECT_TRUE(epoch.ok()) << epoch.status();
    return {request.worker(), *epoch};
  }
  std::int64_t NewRunning() {
    v1::Study study;
    study.set_fingerprint("f");
    const std::int64_t id = *ParseStudyName(store_->CreateStudy("", study, 100)->name());
    EXPECT_TRUE(SetStudyState(*store_, id, v1::STUDY_STATE_RUNNING).ok());
    return id;
  }
  static v1::Job Train(int timed = 3, int ranks = 4) {
    v1::Job job;
    job.set_ranks(ranks);
    job.set_device("cpu");
    job.mutable_train()->set_steps(2 + timed);
    job.mutable_train()->set_warmup_steps_untimed(2);
    job.mutable_train()->mutable_model()->set_hidden(64);
    job.mutable_train()->mutable_plan()->set_tp(ranks);
    return job;
  }
  static v1::Trial Planned(std::int64_t repeat = 0) {
    v1::Trial trial;
    trial.set_plan_text("tp=4");
    trial.set_repeat(repeat);
    trial.mutable_predicted()->set_step_time_s(0.5);
    return trial;
  }
  Lease Begin(std::int64_t study, const v1::Job& job, std::int64_t repeat = 0) {
    EXPECT_TRUE(store_->EnqueueTrial(study, Planned(repeat), job, 3).ok());
    const auto given = store_->LeaseJobs({a_}, {a_}, now_, 10);
    EXPECT_TRUE(given.ok() && given->leases.size() == 1) << given.status();
    return given->leases.at(0);
  }
  void End(const Lease& lease) {
    v1::ReportTrialRequest report;
    report.set_worker(lease.session.worker);
    report.set_session_epoch(lease.session.epoch);
    report.set_lease_id(lease.lease_id);
    report.set_fencing_token(lease.fencing_token);
    report.set_attempt(lease.attempt);
    report.set_request_id(lease.lease_id);
    report.set_outcome(v1::OUTCOME_MEASURED);
    const auto& train = lease.job.train();
    for (std::int64_t i = train.warmup_steps_untimed(); i < train.steps(); ++i)
      report.mutable_measurement()->add_step_time_s(0.25);
    report.mutable_measurement()->set_median_step_time_s(0.25);
    report.mutable_measurement()->set_device_s(12);
    if (lease.job.train().record_breakdown()) {
      v1::TimelineRow& row = *report.mutable_timeline()->add_rows();
      row.set_lane("compute");
      row.set_kind("forward");
      row.set_end_s(0.2);
    }
    const absl::Status status = store_->Report(report, now_ += 10);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Measure(std::int64_t study, const v1::Job& job, std::int64_t repeat = 0) {
    End(Begin(study, job, repeat));
  }
  // Returns the name of the trial that would be reused; empty: none.
  std::string Reuse(std::int64_t study, const v1::Job& job, std::int64_t repeat = 0, double now = 300,
                    const v1::Inventory& where = Machine()) {
    const auto key = OpTimesKeyOf(std::vector<MachineShare>{{where, job.ranks()}}, false);
    EXPECT_TRUE(key.has_value());
    const auto reused = store_->ReuseTrial(study, Planned(repeat), job, *key, now);
    EXPECT_TRUE(reused.ok()) << reused.status();
    return reused.ok() && *reused ? (*reused)->reused_from() : "";
  }

  TempDir dir_;
  std::shared_ptr<Store> store_;
  WorkerSession a_;
  double now_ = 200;
  std::int64_t first_ = 0;
};

TEST_F(ReusedTrialsTest, SameWorkOnTheSameMachineIsMeasuredOnce) {
  Measure(first_, Train());
  const std::int64_t second = NewRunning();
  const std::int64_t before = *store_->ChangeCursor(second);
  ASSERT_EQ(Reuse(second, Train()), TrialName(first_, 1));
  EXPECT_GT(*store_->ChangeCursor(second), before) << "watchers learn of it";
  const v1::Trial trial = *store_->GetTrial(second, 1);
  EXPECT_EQ(trial.state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(trial.reused_from(), TrialName(first_, 1));
  EXPECT_EQ(trial.measured().median_step_time_s(), 0.25);
  EXPECT_EQ(trial.predicted().step_time_s(), 0.5) << "its own prediction";
  EXPECT_THAT(trial.attempts(), IsEmpty());
  EXPECT_EQ(store_->Usage(second)->device_s, 0);
  EXPECT_THAT(store_->LeaseJobs({a_}, {a_}, 301, 10)->leases, IsEmpty());
  // A repeated call answers with it, as does the queue.
  EXPECT_EQ(Reuse(second, Train()), TrialName(first_, 1));
  EXPECT_EQ(store_->EnqueueTrial(second, Planned(), Train(), 3)->name(), TrialName(second, 1));
  EXPECT_EQ(store_->ListTrials(second, 0, 10)->size(), 1u);
}

TEST_F(ReusedTrialsTest, OtherWorkIsMeasured) {
  Measure(first_, Train());
  const std::int64_t second = NewRunning();
  const auto differs = [&](const std::function<void(v1::Job&)>& change) {
    v1::Job job = Train();
    change(job);
    return Reuse(second, job).empty();
  };
  EXPECT_TRUE(differs([](v1::Job& job) { job.mutable_train()->mutable_model()->set_hidden(128); }));
  EXPECT_TRUE(differs([](v1::Job& job) { job.mutable_train()->mutable_workload()->set_global_batch(8); }));
  EXPECT_TRUE(differs([](v1::Job& job) { job.mutable_train()->mutable_plan()->set_zero_stage(1); }));
  EXPECT_TRUE(differs([](v1::Job& job) { job.set_device("paced"); }));
  EXPECT_TRUE(differs([](v1::Job& job) { job.set_ranks(2); }));
  EXPECT_TRUE(differs([](v1::Job& job) { job.mutable_train()->set_steps(9); })) << "more steps";
  EXPECT_EQ(Reuse(first_, Train(), 1), "") << "a repeat in its own study";
  v1::Job fewer = Train(2);
  fewer.mutable_train()->set_record_breakdown(true);
  EXPECT_EQ(Reuse(second, fewer), TrialName(first_, 1));
}

TEST_F(ReusedTrialsTest, OtherMachineBuildOrDayIsMeasured) {
  Measure(first_, Train());
  const std::int64_t second = NewRunning();
  v1::Inventory host = Machine();
  host.set_hostname("two");
  EXPECT_EQ(Reuse(second, Train(), 0, 300, host), "");
  EXPECT_EQ(Reuse(second, Train(), 0, 300, Machine("1.0+def")), "");
  EXPECT_EQ(Reuse(second, Train(), 0, 210 + 25 * kHour), "") << "on a CPU it holds for a day";
  EXPECT_EQ(Reuse(second, Train(), 0, 210 + 23 * kHour), TrialName(first_, 1));
}

TEST_F(ReusedTrialsTest, BuildWithoutARevisionKeepsNothing) {
  a_ = Join("dirty", Machine("1.0+abc-dirty"));
  Measure(first_, Train());
  EXPECT_EQ(Reuse(NewRunning(), Train()), "");
}

TEST_F(ReusedTrialsTest, EachMeasurementCountsOnceInAStudy) {
  Measure(first_, Train());
  const std::int64_t second = NewRunning(), third = NewRunning();
  EXPECT_EQ(Reuse(second, Train()), TrialName(first_, 1));
  EXPECT_EQ(Reuse(second, Train(), 1), "") << "its repeat tells something new";
  Measure(first_, Train(20), 1);
  EXPECT_EQ(Reuse(second, Train(20), 1), TrialName(first_, 2));
  EXPECT_EQ(Reuse(third, Train()), TrialName(first_, 1)) << "the same repeat, although the other is newer";
  EXPECT_EQ(Reuse(third, Train(), 5), TrialName(first_, 2)) << "another one, if there is none";
}

TEST_F(ReusedTrialsTest, DoubtedOrDisturbedMeasurementIsNotReused) {
  Measure(first_, Train());
  v1::Job again = Train();
  again.set_avoids_trial(1);
  const Lease lease = Begin(first_, again, 1);
  const std::int64_t second = NewRunning();
  EXPECT_EQ(Reuse(second, Train()), "") << "its study doubts it";
  End(lease);
  EXPECT_EQ(Reuse(second, Train()), TrialName(first_, 2));
  // Two jobs at once on a worker.
  const std::int64_t third = NewRunning(), fourth = NewRunning();
  const Lease one = Begin(third, Train(3, 2)), other = Begin(fourth, Train(3, 2));
  End(one);
  End(other);
  EXPECT_EQ(Reuse(second, Train(3, 2), 1), "");
}

TEST_F(ReusedTrialsTest, TimelineComesWithIt) {
  v1::Job job = Train();
  job.mutable_train()->set_record_breakdown(true);
  Measure(first_, job);
  ASSERT_TRUE(store_->FindTimeline(first_, "tp=4")->has_value());
  const std::int64_t second = NewRunning();
  ASSERT_EQ(Reuse(second, job), TrialName(first_, 1));
  const auto found = *store_->FindTimeline(second, "tp=4");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->trial, 1);
  EXPECT_EQ(found->timeline.rows_size(), 1);
}

TEST_F(ReusedTrialsTest, EndedStudyTakesNone) {
  Measure(first_, Train());
  const std::int64_t second = NewRunning();
  ASSERT_TRUE(SetStudyState(*store_, second, v1::STUDY_STATE_CANCELLED).ok());
  const auto key = OpTimesKeyOf(std::vector<MachineShare>{{Machine(), 4}}, false);
  EXPECT_EQ(store_->ReuseTrial(second, Planned(), Train(), *key, 300).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->ReuseTrial(99, Planned(), Train(), *key, 300).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ReusedTrialsTest, CopyOutlivesItsSourceAndMoves) {
  Measure(first_, Train());
  const std::int64_t second = NewRunning(), third = NewRunning();
  ASSERT_EQ(Reuse(second, Train()), TrialName(first_, 1));
  for (const std::int64_t study : {first_, second})
    ASSERT_TRUE(SetStudyState(*store_, study, v1::STUDY_STATE_CANCELLED).ok());
  ASSERT_TRUE(store_->DeleteStudy(first_).ok());
  EXPECT_EQ(store_->GetTrial(second, 1)->measured().median_step_time_s(), 0.25);
  EXPECT_EQ(Reuse(third, Train()), "") << "a copy is no source";
  Store::StudyCopy copy;
  copy.study = *store_->GetStudy(second);
  copy.usage = *store_->Usage(second);
  copy.trials = *store_->ListTrials(second, 0, 10);
  const auto imported = store_->ImportStudy(copy);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const std::int64_t id = *ParseStudyName(imported->name());
  const v1::Trial trial = *store_->GetTrial(id, 1);
  EXPECT_EQ(trial.state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(trial.reused_from(), TrialName(first_, 1));
  EXPECT_EQ(trial.measured().median_step_time_s(), 0.25);
  EXPECT_EQ(store_->Usage(id)->device_s, 0);
  const auto check = CheckSqlite(dir_.File("a.db"));
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(check->problems, IsEmpty());
}

}  // namespace
}  // namespace autocfg::server
