// Studies that are cancelled, paused, or out of time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;
using CoordinatorTest = CoordinatorFixture;

TEST_F(CoordinatorTest, CancelEndsTheStudyAndItsJobs) {
  Open(/*lease_duration_s=*/10);
  const v1::Study study = Create(SmallSpec());
  std::atomic<int> jobs = 0;
  std::atomic<bool> cancelled = false;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    if (++jobs == 4) {
      while (!cancelled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      v1::ReportTrialRequest report;
      report.set_outcome(v1::OUTCOME_CANCELLED);
      return report;
    }
    return FakeWorker::ByFormula(job);
  });
  ASSERT_TRUE(Start(study.name()).ok());
  while (Get(study.name()).counts().measured() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(Cancel(study.name()).ok());
  EXPECT_TRUE(Cancel(study.name()).ok());
  cancelled = true;
  const v1::Study ended = Finish(study.name());
  EXPECT_EQ(ended.state(), v1::STUDY_STATE_CANCELLED);
  EXPECT_GT(ended.end_time_s(), 0);
  EXPECT_TRUE(ended.has_best());
  EXPECT_EQ(Start(study.name()).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  int measured = 0;
  for (const v1::Trial& trial : Trials(study.name())) {
    measured += trial.state() == v1::TRIAL_STATE_MEASURED ? 1 : 0;
    EXPECT_TRUE(trial.state() == v1::TRIAL_STATE_MEASURED || trial.state() == v1::TRIAL_STATE_CANCELLED);
  }
  EXPECT_EQ(measured, 2);
  // The best known plan is recommended, now and after a restart.
  worker.Stop();
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "measured");
  EXPECT_EQ(answer.counts().measured(), 2);
  Close();
  Open();
  EXPECT_EQ(Decision(Recommend(study.name())), Decision(answer));
}

TEST_F(CoordinatorTest, PauseStopsTheQueueAndResumeContinues) {
  Open();
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  {
    FakeWorker worker(coordinator_->address());
    while (worker.jobs_done() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(Pause(study.name()).ok());
    const auto count = [&](v1::TrialState state) {
      const std::vector<v1::Trial> trials = Trials(study.name());
      return std::count_if(trials.begin(), trials.end(),
                           [state](const v1::Trial& trial) { return trial.state() == state; });
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (count(v1::TRIAL_STATE_RUNNING) > 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto measured = count(v1::TRIAL_STATE_MEASURED);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    EXPECT_EQ(count(v1::TRIAL_STATE_MEASURED), measured);
    EXPECT_EQ(count(v1::TRIAL_STATE_RUNNING), 0);
  }
  EXPECT_EQ(Get(study.name()).state(), v1::STUDY_STATE_PAUSED);
  EXPECT_TRUE(Pause(study.name()).ok());
  Close();
  Open();
  EXPECT_EQ(Get(study.name()).state(), v1::STUDY_STATE_PAUSED);  // a restart does not resume it
  EXPECT_EQ(Recommend(study.name()).provenance(), "measured");
  for (int i = 0; i < 5; ++i) {  // rapidly
    EXPECT_TRUE(Resume(study.name()).ok());
    EXPECT_TRUE(Pause(study.name()).ok());
  }
  EXPECT_TRUE(Resume(study.name()).ok());
  EXPECT_TRUE(Resume(study.name()).ok());
  FakeWorker worker(coordinator_->address(), FakeWorker::ByFormula, "boot2");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(Recommend(study.name()).best().plan_text(), "tp=1,pp=1,dp=4,mbs=1,zero=1");
  EXPECT_EQ(Resume(study.name()).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

// A calibration keeps to the budget by itself; here its worker hangs.
TEST_F(CoordinatorTest, TimeBudgetShorterThanCalibrationIsReported) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.set_time_budget_s(4);
  const v1::Study study = Create(spec);
  std::atomic<bool> over = false;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FakeWorker::ByFormula(job);
  });
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study done = Finish(study.name());
  over = true;
  EXPECT_EQ(done.state(), v1::STUDY_STATE_FAILED);
  EXPECT_EQ(done.message(),
            "the time budget of 4 s ended before one op of each kind was timed; give more time, such as 8 s, "
            "or name smaller micro batches with --space");
}

TEST_F(CoordinatorTest, TimeBudgetSpentWithoutAWorkerIsReported) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.set_time_budget_s(2);
  const v1::Study study = Create(spec);
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study done = Finish(study.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(done.message(),
              ::testing::MatchesRegex(
                  "the time budget of 2 s ended before one op of each kind was timed: for [0-9.]+ s "
                  "of it no worker took the calibration; see `autocfg workers`, and repeat the search with "
                  "free workers"));
}

TEST_F(CoordinatorTest, SpentTimeBudgetEndsTheStudyWithBestSoFar) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.set_time_budget_s(5);
  const v1::Study study = Create(spec);
  std::atomic<int> jobs = 0;
  std::atomic<bool> over = false;
  double calibration_budget = 0;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    if (job.has_calibrate()) calibration_budget = job.calibrate().time_budget_s();
    if (++jobs == 4) {  // hangs
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return FakeWorker::ByFormula(job);
  });
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study done = Finish(study.name());
  over = true;
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE);
  EXPECT_THAT(done.message(), HasSubstr("time budget"));
  EXPECT_NEAR(calibration_budget, 1, 1e-12);
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "measured");
  EXPECT_EQ(answer.counts().measured(), 2);
  EXPECT_GE(answer.wall_s(), 5);
  EXPECT_EQ(answer.stopped(), "time_budget");
  EXPECT_GT(answer.plans_left(), 0);
  worker.Stop();
  Close();
  Open();
  const v1::Recommendation again = Recommend(study.name());
  EXPECT_EQ(Decision(again), Decision(answer));
  EXPECT_EQ(again.stopped(), "time_budget");
  EXPECT_EQ(again.plans_left(), answer.plans_left());
}

}  // namespace
}  // namespace autocfg::server
