// How a study handles every possible outcome of its trials and its calibration.
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;
using CoordinatorTest = CoordinatorFixture;

TEST_F(CoordinatorTest, EachOutcomeIsRecordedAndTheSearchContinues) {
  Open();
  const v1::Study study = Create(SmallSpec());
  int trial = 0;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    if (job.has_calibrate()) return FakeWorker::ByFormula(job);
    v1::ReportTrialRequest report;
    switch (++trial) {
      case 1:
        report.set_outcome(v1::OUTCOME_OUT_OF_MEMORY);
        report.mutable_out_of_memory()->set_total(7);
        break;
      case 2:
        report.set_outcome(v1::OUTCOME_FAILED);
        report.set_message("rank 2: killed");
        break;
      case 3: report.set_outcome(v1::OUTCOME_TIMED_OUT); break;
      default: return FakeWorker::ByFormula(job);
    }
    return report;
  });
  ASSERT_TRUE(Start(study.name()).ok());
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  const std::vector<v1::Trial> trials = Trials(study.name());
  ASSERT_GT(trials.size(), 3u);
  EXPECT_EQ(trials[0].state(), v1::TRIAL_STATE_INFEASIBLE);
  EXPECT_EQ(trials[1].state(), v1::TRIAL_STATE_FAILED);
  EXPECT_EQ(trials[1].message(), "rank 2: killed");
  EXPECT_EQ(trials[2].state(), v1::TRIAL_STATE_TIMED_OUT);
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "measured");
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(answer.best().plan_text(), trials[static_cast<std::size_t>(i)].plan_text());
}

TEST_F(CoordinatorTest, FailedCalibrationFailsTheStudyWithItsReason) {
  Open();
  const v1::Study study = Create(SmallSpec());
  FakeWorker worker(coordinator_->address(), [&](const v1::Job&) {
    v1::ReportTrialRequest report;
    report.set_outcome(v1::OUTCOME_FAILED);
    report.set_message("rank 0: no such device");
    return report;
  });
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study failed = Finish(study.name());
  EXPECT_EQ(failed.state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(failed.message(), HasSubstr("rank 0: no such device"));
  EXPECT_FALSE(failed.has_best());
  EXPECT_FALSE(Recommend(study.name()).has_best());
}

TEST_F(CoordinatorTest, LostCalibrationPausesTheStudyAndResumeRepeatsIt) {
  Open();
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  // Each time the worker takes the job and is restarted. A good worker then uses the last session.
  const auto restart = [&](int boot) {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/fake");
    request.set_boot_id(fmt::format("boot {}", boot));
    request.mutable_inventory()->set_slots(4);
    v1::RegisterWorkerResponse response;
    EXPECT_TRUE(Call(workers_, &v1::WorkerService::Stub::RegisterWorker, request, &response).ok());
    return response.session_epoch();
  };
  const auto lose_all = [&](int boot) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      v1::LeaseWorkRequest request;
      request.set_worker("workers/fake");
      request.set_session_epoch(restart(boot + attempt));
      request.set_wait_s(15);
      v1::LeaseWorkResponse lease;
      ASSERT_TRUE(Call(workers_, &v1::WorkerService::Stub::LeaseWork, request, &lease).ok());
      ASSERT_TRUE(lease.has_job());
      EXPECT_TRUE(lease.job().has_calibrate());
    }
    restart(boot + 3);
    const auto paused = [](const v1::StudyEvent& event) {
      return event.study().state() == v1::STUDY_STATE_PAUSED;
    };
    const Stream stream = Watch(study.name(), 0, paused);
    ASSERT_FALSE(stream.events.empty());
    EXPECT_EQ(stream.events.back().study().state(), v1::STUDY_STATE_PAUSED);
    EXPECT_THAT(stream.events.back().study().message(), HasSubstr("resume the study"));
  };
  lose_all(0);
  // After a start or a resume, the job has all its attempts again, and old messages are gone.
  ASSERT_TRUE(Start(study.name()).ok());
  EXPECT_EQ(Get(study.name()).message(), "");
  lose_all(10);
  ASSERT_TRUE(Resume(study.name()).ok());
  FakeWorker worker(coordinator_->address(), FakeWorker::ByFormula, "good");
  const v1::Study done = Finish(study.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(done.message(), "");
  EXPECT_TRUE(done.has_best());
}

TEST_F(CoordinatorTest, InvalidCalibrationIsRetriedOnAnotherWorker) {
  Open();
  const v1::Study study = Create(SmallSpec());
  std::promise<void> other_is_there;
  std::shared_future<void> other(other_is_there.get_future());
  FakeWorker liar(
      coordinator_->address(),
      [&](const v1::Job& job) {
        other.wait();
        v1::ReportTrialRequest report = FakeWorker::ByFormula(job);
        if (job.has_calibrate()) report.mutable_calibration()->mutable_ops(0)->mutable_op()->set_kind("tea");
        return report;
      },
      "boot", 4, "workers/liar");
  ASSERT_TRUE(Start(study.name()).ok());
  while (liar.runs().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  FakeWorker honest(coordinator_->address());
  AwaitPoll("workers/fake");
  other_is_there.set_value();
  const v1::Study ended = Finish(study.name());
  EXPECT_EQ(ended.state(), v1::STUDY_STATE_DONE) << ended.message();
  EXPECT_EQ(liar.runs()[study.name() + "/calibration"], 1);
  EXPECT_EQ(honest.runs()[study.name() + "/calibration"], 1);
}

TEST_F(CoordinatorTest, InvalidCalibrationOfTheOnlyWorkerFailsTheStudy) {
  Open();
  const v1::Study study = Create(SmallSpec());
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    v1::ReportTrialRequest report = FakeWorker::ByFormula(job);
    report.mutable_calibration()->mutable_ops(0)->mutable_op()->set_kind("tea");
    return report;
  });
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study failed = Finish(study.name());
  EXPECT_EQ(failed.state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(failed.message(), HasSubstr("tea"));
  EXPECT_GT(worker.runs()[study.name() + "/calibration"], 1) << "another attempt could have gone elsewhere";
}

// A worker whose clock runs a thousand times too slowly. What it measures is repeated elsewhere.
TEST_F(CoordinatorTest, WorkerWithABrokenClockDoesNotDecide) {
  Open();
  const v1::Study study = Create(SmallSpec());
  const auto far_too_fast = [](const v1::Job& job) {
    v1::ReportTrialRequest report = FakeWorker::ByFormula(job);
    if (job.has_calibrate()) return report;
    v1::Measurement& measurement = *report.mutable_measurement();
    for (double& step : *measurement.mutable_step_time_s()) step /= 1000;
    measurement.set_median_step_time_s(measurement.median_step_time_s() / 1000);
    return report;
  };
  FakeWorker broken(coordinator_->address(), far_too_fast, "boot", 4, "workers/broken");
  FakeWorker honest(coordinator_->address(), FakeWorker::ByFormula, "boot", 4, "workers/honest");
  ASSERT_TRUE(Start(study.name()).ok());
  ASSERT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_FALSE(broken.runs().empty());
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "measured");
  constexpr double kFastest = 0.01;  // by the formula
  EXPECT_GE(answer.best().measured().median_step_time_s(), kFastest) << answer.best().plan_text();
  for (const v1::Candidate& candidate : answer.runners_up()) {
    if (!candidate.has_measured()) continue;
    EXPECT_GE(candidate.measured().median_step_time_s(), kFastest) << candidate.plan_text();
  }
}

}  // namespace
}  // namespace autocfg::server
