// The coordinator as a whole: a small study from end to end over a Unix socket with a fake worker, stopped
// and started again, cancelled, paused, out of time, and with every outcome that a trial can have.
#include "server/coordinator.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <set>

#include "autocfg/v1/study_service.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/resource_names.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg {
namespace {

using testing::HasSubstr;
using CoordinatorTest = CoordinatorFixture;

// What a search decided, without what it took.
std::string Decision(v1::Recommendation answer) {
  answer.clear_wall_s();
  answer.clear_plan_cpu_s();
  answer.clear_device_s();
  answer.clear_exhaustive_device_s();  // what was used is in it
  return answer.DebugString();
}

TEST_F(CoordinatorTest, ASmallStudyRunsFromEndToEnd) {
  Open();
  const v1::Study created = Create(SmallSpec());
  EXPECT_EQ(created.state(), v1::STUDY_STATE_CREATED);
  EXPECT_EQ(created.owner(), "tester");
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(created.name()).ok());
  const v1::Study done = Finish(created.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE) << done.message();
  EXPECT_EQ(done.message(), "");
  EXPECT_EQ(done.phase(), "done");
  EXPECT_GE(done.end_time_s(), done.create_time_s());

  const v1::Recommendation answer = Recommend(created.name());
  EXPECT_EQ(answer.study(), created.name());
  EXPECT_EQ(answer.provenance(), "measured");
  // The formula's best: all ranks in data parallel, the smallest micro batch.
  EXPECT_EQ(answer.best().plan_text(), "tp=1,pp=1,dp=4,mbs=1");
  EXPECT_TRUE(answer.best().has_predicted());
  EXPECT_GE(answer.best().measured().step_time_s_size(), 3);
  EXPECT_NEAR(answer.best().measured().median_step_time_s(), FakeWorker::StepSeconds(answer.best().plan()),
              1e-4);
  EXPECT_EQ(answer.best().measured().peak_memory_bytes(), 12345);
  EXPECT_EQ(done.best().SerializeAsString(), answer.best().SerializeAsString());
  ASSERT_GT(answer.runners_up_size(), 0);
  const v1::Counts& counts = answer.counts();
  EXPECT_GT(counts.measured(), 0);
  EXPECT_EQ(counts.enumerated(), counts.illegal() + counts.out_of_memory() + counts.predicted());
  EXPECT_EQ(counts.evaluated(), counts.predicted());
  EXPECT_LT(counts.measured(), counts.predicted());
  EXPECT_EQ(done.counts().SerializeAsString().size(), counts.SerializeAsString().size());
  EXPECT_GT(answer.wall_s(), 0);
  EXPECT_GT(answer.plan_cpu_s(), 0);
  EXPECT_GT(answer.exhaustive_device_s(), answer.device_s()) << "a search costs less than measuring all";

  const std::vector<v1::Trial> trials = Trials(created.name());
  double device_s = 4;  // the calibration's
  std::set<std::string> plans;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    EXPECT_EQ(trials[i].name(), fmt::format("{}/trials/{}", created.name(), i + 1));
    EXPECT_EQ(trials[i].state(), v1::TRIAL_STATE_MEASURED);
    EXPECT_TRUE(trials[i].has_predicted());
    EXPECT_EQ(trials[i].attempts_size(), 1);
    EXPECT_TRUE(plans.insert(fmt::format("{} {}", trials[i].plan_text(), trials[i].repeat())).second);
    device_s += trials[i].measured().device_s();
  }
  EXPECT_EQ(worker.jobs_done(), static_cast<int>(trials.size()) + 1);
  EXPECT_NEAR(answer.device_s(), device_s, 1e-9);
}

TEST_F(CoordinatorTest, JobsCarryAllThatTheTrainerNeeds) {
  Open();
  const v1::Study study = Create(SmallSpec());
  std::vector<v1::Job> jobs;
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    jobs.push_back(job);
    return FakeWorker::ByFormula(job);
  });
  ASSERT_TRUE(Start(study.name()).ok());
  Finish(study.name());
  worker.Stop();
  ASSERT_GT(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].name(), study.name() + "/calibration");
  EXPECT_EQ(jobs[0].ranks(), 4);
  EXPECT_EQ(jobs[0].calibrate().time_budget_s(), 10);
  EXPECT_GT(jobs[0].calibrate().ops_size(), 10);
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    const v1::TrainSpec& train = jobs[i].train();
    EXPECT_EQ(jobs[i].device(), "cpu");
    EXPECT_EQ(jobs[i].ranks(), train.plan().tp() * train.plan().pp() * train.plan().dp());
    EXPECT_GE(jobs[i].time_limit_s(), 30);
    EXPECT_GE(train.steps() - train.warmup_steps_untimed(), 3);
    EXPECT_LE(train.steps() - train.warmup_steps_untimed(), 20);
    EXPECT_GE(train.warmup_steps_untimed(), 1);
    EXPECT_NE(train.program_fingerprint(), 0u);
    EXPECT_EQ(train.memory_capacity_bytes(), std::int64_t{1} << 30);
    EXPECT_EQ(train.model().ffn_hidden(), 256);  // defaults are filled in
    EXPECT_EQ(train.optimizer().lr(), 3e-4);
    EXPECT_EQ(train.optimizer().clip_norm(), 1);
  }
}

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

TEST_F(CoordinatorTest, ExhaustiveMeasuresEveryPlanThatFits) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.set_exhaustive(true);
  const v1::Study study = Create(spec);
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(study.name()).ok());
  Finish(study.name());
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.counts().measured(), answer.counts().predicted());
  EXPECT_EQ(answer.best().plan_text(), "tp=1,pp=1,dp=4,mbs=1");
  EXPECT_EQ(answer.stopped(), "") << "nothing was left";
}

TEST_F(CoordinatorTest, MaxTrialsBoundsTheTrials) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.set_max_trials(2);
  const v1::Study study = Create(spec);
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(study.name()).ok());
  Finish(study.name());
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.counts().measured(), 2);
  EXPECT_EQ(answer.stopped(), "max_trials");
  EXPECT_GT(answer.plans_left(), 0);
}

TEST_F(CoordinatorTest, EachOutcomeIsItsOwnAndTheSearchGoesOn) {
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

TEST_F(CoordinatorTest, AFailedCalibrationFailsTheStudyAndSaysWhy) {
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

TEST_F(CoordinatorTest, ALostCalibrationPausesTheStudyAndResumingMeasuresItAnew) {
  Open();
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  // Its worker takes it and is started anew, each time; the last session is the one that a good worker has.
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
  // Started or resumed, it goes on with a full bound of attempts, and with nothing said of what has passed.
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

TEST_F(CoordinatorTest, AMeaninglessCalibrationIsLeftToAnotherWorker) {
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
  other_is_there.set_value();
  const v1::Study ended = Finish(study.name());
  EXPECT_EQ(ended.state(), v1::STUDY_STATE_DONE) << ended.message();
  EXPECT_EQ(liar.runs()[study.name() + "/calibration"], 1);
  EXPECT_EQ(honest.runs()[study.name() + "/calibration"], 1);
}

TEST_F(CoordinatorTest, AMeaninglessCalibrationOfTheOnlyWorkerFailsTheStudyAndSaysWhy) {
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

TEST_F(CoordinatorTest, WhereNothingFitsTheStudyIsDoneAndSaysSo) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.mutable_cluster()->mutable_groups(0)->mutable_device()->set_memory_bytes(1000);
  const v1::Study study = Create(spec);
  ASSERT_TRUE(Start(study.name()).ok());
  const v1::Study done = Finish(study.name());  // without a worker: nothing is measured
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE);
  EXPECT_THAT(done.message(), HasSubstr("fits"));
  EXPECT_THAT(done.message(), HasSubstr("the smallest is tp="));
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.nothing_fits(), done.message());
  EXPECT_FALSE(answer.has_best());
  EXPECT_GT(answer.counts().out_of_memory(), 0);
  Close();
  Open();
  EXPECT_EQ(Recommend(study.name()).nothing_fits(), done.message());
}

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
  // What is known is recommended, now and after a restart.
  worker.Stop();
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "measured");
  EXPECT_EQ(answer.counts().measured(), 2);
  Close();
  Open();
  EXPECT_EQ(Decision(Recommend(study.name())), Decision(answer));
}

TEST_F(CoordinatorTest, PauseHoldsTheQueueAndResumeGoesOn) {
  Open();
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  {
    FakeWorker worker(coordinator_->address());
    while (worker.jobs_done() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(Pause(study.name()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const int jobs = worker.jobs_done();
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    EXPECT_EQ(worker.jobs_done(), jobs);
  }
  EXPECT_EQ(Get(study.name()).state(), v1::STUDY_STATE_PAUSED);
  EXPECT_TRUE(Pause(study.name()).ok());
  Close();
  Open();
  EXPECT_EQ(Get(study.name()).state(), v1::STUDY_STATE_PAUSED);  // a restart does not resume it
  EXPECT_EQ(Recommend(study.name()).provenance(), "measured");
  for (int i = 0; i < 5; ++i) {  // in a hurry
    EXPECT_TRUE(Resume(study.name()).ok());
    EXPECT_TRUE(Pause(study.name()).ok());
  }
  EXPECT_TRUE(Resume(study.name()).ok());
  EXPECT_TRUE(Resume(study.name()).ok());
  FakeWorker worker(coordinator_->address(), FakeWorker::ByFormula, "boot2");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(Recommend(study.name()).best().plan_text(), "tp=1,pp=1,dp=4,mbs=1");
  EXPECT_EQ(Resume(study.name()).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(CoordinatorTest, ASpentTimeBudgetEndsTheStudyWithWhatIsKnown) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  spec.set_time_budget_s(1);
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
  EXPECT_NEAR(calibration_budget, 0.2, 1e-12);
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "measured");
  EXPECT_EQ(answer.counts().measured(), 2);
  EXPECT_GE(answer.wall_s(), 1);
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

TEST_F(CoordinatorTest, AnEqualSearchJoinsTheUnfinishedOne) {
  Open();
  const v1::Study study = Create(SmallSpec());
  v1::SearchSpec same = SmallSpec();
  same.mutable_model()->set_ffn_hidden(256);  // what it defaults to
  same.set_device("cpu");
  EXPECT_EQ(Create(same, /*reuse=*/true).name(), study.name());
  EXPECT_NE(Create(same, /*reuse=*/false).name(), study.name());
  v1::SearchSpec other = SmallSpec();
  other.mutable_workload()->set_global_batch(16);
  EXPECT_NE(Create(other, /*reuse=*/true).fingerprint(), study.fingerprint());
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

TEST_F(CoordinatorTest, HealthAndReflectionAnswer) {
  Open();
  // Both by the wire format of their request, since their messages are not part of this project.
  grpc::GenericStub generic(channel_);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer response;
  grpc::Status status;
  grpc::Slice slice;
  void* tag = nullptr;
  bool ok = false;
  // Of the server, and of each service: field 1, a string.
  for (const std::string service : {"",
                                    "\x0a\x17"
                                    "autocfg.v1.StudyService",
                                    "\x0a\x18"
                                    "autocfg.v1.WorkerService"}) {
    grpc::ClientContext context;
    const grpc::Slice bytes(service);
    const grpc::ByteBuffer check(&bytes, 1);
    auto call = generic.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", check, &queue);
    call->StartCall();
    call->Finish(&response, &status, &response);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
    ASSERT_TRUE(response.DumpToSingleSlice(&slice).ok());
    // SERVING
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()), "\x08\x01") << service;
  }

  grpc::ClientContext stream_context;
  auto stream = generic.PrepareCall(&stream_context,
                                    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  stream->StartCall(&queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  const std::string list_services = "\x3a\x01*";  // field 7, a string
  grpc::Slice request(list_services);
  stream->Write(grpc::ByteBuffer(&request, 1), &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  stream->Read(&response, &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  ASSERT_TRUE(response.DumpToSingleSlice(&slice).ok());
  const std::string services(reinterpret_cast<const char*>(slice.begin()), slice.size());
  EXPECT_THAT(services, HasSubstr("autocfg.v1.StudyService"));
  EXPECT_THAT(services, HasSubstr("autocfg.v1.WorkerService"));
  stream_context.TryCancel();
  stream->Finish(&status, &queue);
  ASSERT_TRUE(queue.Next(&tag, &ok));
}

// --- The socket ---

absl::Status StartStatus(const std::string& address, double lease_duration_s = 10) {
  auto store = OpenMemoryStore();
  EXPECT_TRUE(store.ok());
  CoordinatorOptions options;
  options.address = address;
  options.lease_duration_s = lease_duration_s;
  return Coordinator::Start(*std::move(store), options).status();
}

TEST_F(CoordinatorTest, TheSocketIsItsOwnersAlone) {
  Open();
  struct stat info {};
  ASSERT_EQ(::stat(dir_.File("s").c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // It is in use.
  const absl::Status status = StartStatus("unix:" + dir_.File("s"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("another coordinator"));
  EXPECT_EQ(Create(SmallSpec()).state(), v1::STUDY_STATE_CREATED);  // and still answers
}

TEST_F(CoordinatorTest, ASocketThatWasLeftBehindIsReplaced) {
  const std::string path = dir_.File("s");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);
  Open();
  EXPECT_EQ(Create(SmallSpec()).state(), v1::STUDY_STATE_CREATED);
}

TEST_F(CoordinatorTest, BadAddressesAreRefused) {
  std::ofstream(dir_.File("file")) << "mine";
  EXPECT_EQ(StartStatus("unix:" + dir_.File("file")).code(), absl::StatusCode::kFailedPrecondition);
  std::string kept;
  std::ifstream(dir_.File("file")) >> kept;
  EXPECT_EQ(kept, "mine");
  EXPECT_EQ(StartStatus("unix:").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("unix:/tmp/" + std::string(200, 'x')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("unix:" + dir_.File("no/such/s")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StartStatus("0.0.0.0:0").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("unix:" + dir_.File("s"), 0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, ALoopbackAddressSaysItsPort) {
  auto store = OpenMemoryStore();
  ASSERT_TRUE(store.ok());
  CoordinatorOptions options;
  options.address = "127.0.0.1:0";
  auto coordinator = Coordinator::Start(*std::move(store), options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_THAT((*coordinator)->address(), testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  (*coordinator)->Shutdown();
  (*coordinator)->Shutdown();
}

}  // namespace
}  // namespace autocfg
