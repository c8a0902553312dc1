// Studies across a coordinator restart, a lost worker or a full disk.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "SQLiteCpp/Database.h"
#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using CoordinatorTest = CoordinatorFixture;

TEST_F(CoordinatorTest, RestartDoesNotChangeTheDecision) {
  // Without interruptions.
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
  // The same, with the coordinator and the worker ended after every few jobs.
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
    worker.Kill();  // a job is in flight and is never reported
    Close();
    Open();
  }
  EXPECT_EQ(Get(second.name()).state(), v1::STUDY_STATE_DONE);
  v1::Recommendation answer = Recommend(second.name());
  answer.clear_study();
  EXPECT_EQ(Decision(answer), wanted);
  EXPECT_EQ(Trials(second.name()).size(), trials);
  // The result is unchanged after another restart, when only the store knows it.
  Close();
  Open();
  for (const std::string& name : {first.name(), second.name()}) {
    v1::Recommendation replayed = Recommend(name);
    EXPECT_EQ(replayed.study(), name);
    replayed.clear_study();
    EXPECT_EQ(Decision(replayed), wanted);
  }
}

TEST_F(CoordinatorTest, RestartDoesNotRepeatMeasuredTrials) {
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

TEST_F(CoordinatorTest, TrialOfLostWorkerMovesToAnother) {
  Open(/*lease_duration_s=*/2);
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
  // A worker on another machine: nobody reports that the first is gone, but its lease expires.
  FakeWorker second(coordinator_->address(), FakeWorker::ByFormula, "boot", 4, "workers/second");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  const std::vector<v1::Trial> trials = Trials(study.name());
  const auto moved = std::find_if(trials.begin(), trials.end(),
                                  [&](const v1::Trial& trial) { return trial.name() == lost; });
  ASSERT_NE(moved, trials.end());
  ASSERT_EQ(moved->attempts_size(), 2);
  EXPECT_EQ(moved->attempts(0).state(), v1::TRIAL_STATE_LOST);
  EXPECT_EQ(moved->attempts(1).worker(), "workers/second");
  EXPECT_EQ(moved->state(), v1::TRIAL_STATE_MEASURED);
}

TEST_F(CoordinatorTest, FullDiskStopsTheStudyWithoutDataLoss) {
  Open();
  Close();
  const int pages = SQLite::Database(dir_.File("autocfg.db")).execAndGet("PRAGMA page_count").getInt();
  Open(1, {.max_pages = pages + 8});
  const v1::Study study = Create(ExhaustiveSpec());
  Stream stream;
  {
    FakeWorker worker(coordinator_->address());
    ASSERT_TRUE(Start(study.name()).ok());
    stream = Watch(study.name());
  }
  EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << stream.status.error_message();
  Close();
  Open();  // the disk has space again
  FakeWorker worker(coordinator_->address(), FakeWorker::ByFormula, "boot2");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(Recommend(study.name()).best().plan_text(), "tp=1,pp=1,dp=4,mbs=1,zero=3");
}

TEST_F(CoordinatorTest, StudyContinuesOnceTheDiskHasSpace) {
  Open();
  Close();
  // Simulates another program's file on the same disk.
  const auto raw = [&] { return SQLite::Database(dir_.File("autocfg.db"), SQLite::OPEN_READWRITE, 5000); };
  raw().exec("CREATE TABLE in_the_way (bytes BLOB); INSERT INTO in_the_way VALUES (zeroblob(1000000))");
  Open(1, {.max_pages = raw().execAndGet("PRAGMA page_count").getInt() + 8});
  const v1::Study study = Create(ExhaustiveSpec());
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(study.name()).ok());
  const Stream stream = Watch(study.name());
  ASSERT_EQ(stream.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << stream.status.error_message();
  const v1::Study waits = Get(study.name());
  EXPECT_EQ(waits.state(), v1::STUDY_STATE_RUNNING);
  EXPECT_THAT(waits.waiting(), testing::HasSubstr("no space for database"));
  raw().exec("DROP TABLE in_the_way");
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Get(study.name()).state() == v1::STUDY_STATE_RUNNING && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const v1::Study done = Get(study.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE) << done.message() << done.waiting();
  EXPECT_EQ(done.waiting(), "");
  EXPECT_EQ(Recommend(study.name()).best().plan_text(), "tp=1,pp=1,dp=4,mbs=1,zero=3");
}

// While alive, prevents this process from writing files longer than `bytes`.
class ShortFiles {
 public:
  explicit ShortFiles(std::uintmax_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~ShortFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  ShortFiles(const ShortFiles&) = delete;
  ShortFiles& operator=(const ShortFiles&) = delete;

 private:
  void (*const signal_)(int);
  rlimit before_{};
};

TEST_F(CoordinatorTest, WatchContinuesDuringStorageFailure) {
  Open();
  const v1::Study study = Create(SmallSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  Watch(study.name(), 0, [](const v1::StudyEvent& event) { return event.study().phase() == "calibrating"; });
  auto fails = std::make_unique<ShortFiles>(std::filesystem::file_size(dir_.File("autocfg.db-wal")));
  EXPECT_EQ(CreateStatus(SmallSpec()).error_code(), grpc::StatusCode::UNAVAILABLE);
  bool waited = false;
  const Stream stream = Watch(study.name(), 0, [&](const v1::StudyEvent& event) {
    const bool waits = event.study().waiting().find("cannot be used") != std::string::npos;
    if (waits) {
      waited = true;
      fails.reset();
    }
    return waited && !waits;
  });
  EXPECT_TRUE(waited);
  EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::CANCELLED)
      << "by the test, which saw it go on; not " << stream.status.error_message();
  fails.reset();
  FakeWorker worker(coordinator_->address());
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
}

}  // namespace
}  // namespace autocfg::server
