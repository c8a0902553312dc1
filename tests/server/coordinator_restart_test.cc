// What becomes of a study where the coordinator is started again, its worker is lost or its disk is full.
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "tests/server/coordinator_fixture.h"

namespace autocfg {
namespace {

using CoordinatorTest = CoordinatorFixture;

TEST_F(CoordinatorTest, ARestartInTheMiddleDecidesTheSame) {
  // Undisturbed.
  Open();
  const v1::Study first = Create(SmallSpec());
  std::string wanted;
  std::size_t trials = 0;
  {
    FakeWorker worker(coordinator_->address());
    ASSERT_TRUE(Start(first.name()).ok());
    Finish(first.name());
    v1::Recommendation answer = Recommend(first.name());
    answer.clear_study();
    wanted = Decision(answer);
    trials = Trials(first.name()).size();
  }
  // The same with the coordinator and the worker ended after every few jobs.
  v1::Study second = Create(SmallSpec());
  ASSERT_NE(second.name(), first.name());
  ASSERT_TRUE(Start(second.name()).ok());
  std::map<std::string, int> finished;
  for (int stop = 1; Get(second.name()).state() == v1::STUDY_STATE_RUNNING && stop < 50; ++stop) {
    std::atomic<int> jobs = 0;
    std::atomic<bool> enough = false;
    FakeWorker worker(
        coordinator_->address(),
        [&](const v1::Job& job) {
          if (++jobs > 3) {
            enough = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          }
          return FakeWorker::ByFormula(job);
        },
        fmt::format("boot{}", stop));
    while (!enough && Get(second.name()).state() == v1::STUDY_STATE_RUNNING) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    worker.Kill();  // a job is under way and is never reported
    Close();
    Open();
  }
  EXPECT_EQ(Get(second.name()).state(), v1::STUDY_STATE_DONE);
  v1::Recommendation answer = Recommend(second.name());
  answer.clear_study();
  EXPECT_EQ(Decision(answer), wanted);
  EXPECT_EQ(Trials(second.name()).size(), trials);
  // And what was found stands after another restart, where nobody remembers.
  Close();
  Open();
  for (const std::string& name : {first.name(), second.name()}) {
    v1::Recommendation replayed = Recommend(name);
    EXPECT_EQ(replayed.study(), name);
    replayed.clear_study();
    EXPECT_EQ(Decision(replayed), wanted);
  }
}

TEST_F(CoordinatorTest, MeasuredTrialsAreNotRunAgainAfterARestart) {
  Open();
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  std::set<std::string> before;
  {
    FakeWorker worker(coordinator_->address());
    while (worker.jobs_done() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    worker.Kill();
  }
  for (const v1::Trial& trial : Trials(study.name())) {
    if (trial.state() == v1::TRIAL_STATE_MEASURED) before.insert(trial.name());
  }
  ASSERT_GE(before.size(), 2u);
  Close();
  Open();
  FakeWorker worker(coordinator_->address(), FakeWorker::ByFormula, "boot2");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  for (const auto& [name, runs] : worker.runs()) {
    EXPECT_FALSE(before.contains(name)) << name;
    EXPECT_NE(name, study.name() + "/calibration");
  }
}

TEST_F(CoordinatorTest, ALostWorkersTrialIsGivenToAnother) {
  Open(/*lease_duration_s=*/0.3);
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  std::string lost;
  {
    std::atomic<bool> holding = false;
    std::atomic<bool> release = false;
    FakeWorker first(coordinator_->address(), [&](const v1::Job& job) {
      if (job.has_calibrate()) return FakeWorker::ByFormula(job);
      lost = job.name();
      holding = true;
      while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return FakeWorker::ByFormula(job);
    });
    while (!holding) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    first.Mute();
    release = true;
    first.Kill();
  }
  // Another machine's worker: nobody says that the first is gone, but its lease runs out.
  FakeWorker second(coordinator_->address(), FakeWorker::ByFormula, "boot", 4, "workers/second");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  for (const v1::Trial& trial : Trials(study.name())) {
    if (trial.name() != lost) continue;
    ASSERT_EQ(trial.attempts_size(), 2);
    EXPECT_EQ(trial.attempts(0).state(), v1::TRIAL_STATE_LOST);
    EXPECT_EQ(trial.attempts(1).worker(), "workers/second");
    EXPECT_EQ(trial.state(), v1::TRIAL_STATE_MEASURED);
  }
}

TEST_F(CoordinatorTest, AFullDiskStopsTheStudyButLosesNothing) {
  Open(1, {.max_pages = 40});
  v1::SearchSpec spec = SmallSpec();
  spec.set_exhaustive(true);
  const v1::Study study = Create(spec);
  Stream stream;
  {
    FakeWorker worker(coordinator_->address());
    ASSERT_TRUE(Start(study.name()).ok());
    stream = Watch(study.name());
  }
  EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << stream.status.error_message();
  Close();
  Open();  // with room again
  FakeWorker worker(coordinator_->address(), FakeWorker::ByFormula, "boot2");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(Recommend(study.name()).best().plan_text(), "tp=1,pp=1,dp=4,mbs=1");
}

}  // namespace
}  // namespace autocfg
