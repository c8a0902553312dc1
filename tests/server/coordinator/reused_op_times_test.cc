// Reuse of op times and trials across studies: what a study measures, what it takes from earlier studies, and
// what happens to a calibration of another engine version.
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "SQLiteCpp/SQLiteCpp.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

class ReusedOpTimes : public CoordinatorFixture {
 protected:
  static v1::SearchSpec GpuSpec() {
    v1::SearchSpec spec = SmallSpec();
    v1::NodeGroup& group = *spec.mutable_cluster()->mutable_groups(0);
    group.mutable_device()->set_name("gpu");
    group.mutable_device()->set_kind("cuda");
    spec.set_device("cuda");
    return spec;
  }
  static v1::Inventory Gpus(const std::string& build = "0.1.0+abc") {
    v1::Inventory inventory;
    inventory.set_slots(4);
    inventory.set_device_kind("cuda");
    inventory.set_device_fingerprint("GPU X");
    inventory.set_build_id(build);
    for (int i = 0; i < 4; ++i) inventory.add_gpus()->set_index(i);
    return inventory;
  }
  // Records the jobs that a worker gets; times follow the formula.
  FakeWorker::Measure Recorded() {
    return [this](const v1::Job& job) {
      if (job.has_calibrate()) {
        absl::MutexLock lock(&mutex_);
        std::set<std::string>& ops = calibrated_[job.name()];
        for (const v1::OpDesc& op : job.calibrate().ops()) ops.insert(op.SerializeAsString());
      }
      return FakeWorker::ByFormula(job);
    };
  }
  v1::Study Run(const v1::SearchSpec& spec) {
    const v1::Study created = Create(spec);
    EXPECT_TRUE(Start(created.name()).ok());
    v1::Study done = Finish(created.name());
    EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE) << done.message();
    return done;
  }
  static bool IsCommunication(const std::string& op) {
    v1::OpDesc message;
    EXPECT_TRUE(message.ParseFromString(op));
    return message.group() != "none";
  }
  // Returns the ops of the study's calibration job. Empty if there was none.
  std::set<std::string> Calibrated(const v1::Study& study) {
    absl::MutexLock lock(&mutex_);
    return calibrated_[study.name() + "/calibration"];
  }
  // Returns what a search decided, without its resource usage and the study's name.
  std::string Decision(const v1::Study& study) {
    v1::Recommendation answer = Recommend(study.name());
    answer.clear_study();
    answer.clear_wall_s();
    answer.clear_plan_cpu_s();
    answer.clear_device_s();
    answer.clear_exhaustive_device_s();  // it includes the time used
    answer.clear_reused_op_times();
    answer.clear_reused_trials();
    return answer.DebugString();
  }

  absl::Mutex mutex_;
  std::map<std::string, std::set<std::string>> calibrated_;
};

TEST_F(ReusedOpTimes, SameModelNeedsNoCalibration) {
  Open();
  std::string wanted;
  v1::Study first;
  v1::Study second;
  {
    FakeWorker worker(coordinator_->address(), Gpus(), Recorded());
    first = Run(GpuSpec());
    EXPECT_GT(Calibrated(first).size(), 10u);
    EXPECT_EQ(Recommend(first.name()).reused_op_times(), 0);
    wanted = Decision(first);
    second = Run(GpuSpec());
    EXPECT_EQ(worker.runs().count(second.name() + "/calibration"), 0u);
    EXPECT_EQ(Recommend(second.name()).reused_op_times(),
              static_cast<std::int64_t>(Calibrated(first).size()));
    EXPECT_EQ(Decision(second), wanted);
    EXPECT_EQ(Trials(second.name()).size(), Trials(first.name()).size());
  }
  // From the store only.
  Close();
  Open();
  EXPECT_EQ(Decision(first), wanted);
  EXPECT_EQ(Decision(second), wanted);
  EXPECT_EQ(Recommend(first.name()).reused_op_times(), 0);
  EXPECT_GT(Recommend(second.name()).reused_op_times(), 0);
}

TEST_F(ReusedOpTimes, SamePlansAreMeasuredOnceUnlessFresh) {
  Open();
  FakeWorker worker(coordinator_->address(), Gpus(), Recorded());
  const v1::Study first = Run(GpuSpec());
  const std::vector<v1::Trial> measured = Trials(first.name());
  ASSERT_GT(measured.size(), 3u);
  EXPECT_EQ(Recommend(first.name()).reused_trials(), 0);
  const int jobs = worker.jobs_done();
  const v1::Study second = Run(GpuSpec());
  EXPECT_EQ(worker.jobs_done(), jobs) << "nothing was measured";
  const std::vector<v1::Trial> reused = Trials(second.name());
  ASSERT_EQ(reused.size(), measured.size());
  for (std::size_t i = 0; i < reused.size(); ++i) {
    EXPECT_EQ(reused[i].state(), v1::TRIAL_STATE_MEASURED);
    EXPECT_TRUE(reused[i].reused_from().starts_with(first.name() + "/trials/")) << reused[i].reused_from();
    EXPECT_EQ(reused[i].attempts_size(), 0);
  }
  const v1::Recommendation answer = Recommend(second.name());
  EXPECT_EQ(answer.reused_trials(), static_cast<std::int64_t>(reused.size()));
  EXPECT_EQ(answer.device_s(), 0);
  EXPECT_EQ(answer.provenance(), "measured");
  v1::GetReportRequest of_second;
  of_second.set_study(second.name());
  v1::GetReportResponse report;
  ASSERT_TRUE(Call(studies_, &v1::StudyService::Stub::GetReport, of_second, &report).ok());
  EXPECT_THAT(report.page(), testing::HasSubstr(fmt::format("\"reused_trials\":{}", reused.size())));
  EXPECT_EQ(Decision(second), Decision(first));

  v1::SearchSpec spec = GpuSpec();
  spec.set_fresh(true);
  const v1::Study fresh = Run(spec);
  EXPECT_NE(fresh.fingerprint(), first.fingerprint()) << "it joins no study that reuses";
  EXPECT_EQ(worker.jobs_done(), 2 * jobs) << "the calibration and all trials anew";
  EXPECT_EQ(Recommend(fresh.name()).reused_trials(), 0);
  EXPECT_EQ(Recommend(fresh.name()).reused_op_times(), 0);
  EXPECT_GT(Recommend(fresh.name()).device_s(), 0);
}

TEST_F(ReusedOpTimes, LargerModelMeasuresOnlyNewOps) {
  Open();
  FakeWorker worker(coordinator_->address(), Gpus(), Recorded());
  const v1::Study first = Run(GpuSpec());
  const std::string wanted = Decision(first);
  const std::set<std::string> known = Calibrated(first);
  v1::SearchSpec larger = GpuSpec();
  larger.mutable_model()->set_layers(8);
  const v1::Study second = Run(larger);
  const std::set<std::string> measured = Calibrated(second);
  EXPECT_FALSE(measured.empty());
  bool communication_anew = false;  // because some of it is new
  for (const std::string& op : measured) {
    if (IsCommunication(op)) {
      communication_anew = communication_anew || known.contains(op);
    } else {
      EXPECT_FALSE(known.contains(op));
    }
  }
  EXPECT_TRUE(communication_anew) << "the overhead counts the communicators of one calibration";
  const std::int64_t reused = Recommend(second.name()).reused_op_times();
  EXPECT_GT(reused, 0);

  // As many as the same search needs without stored times.
  v1::Inventory other = Gpus();
  other.set_device_fingerprint("GPU Y");
  worker.Stop();
  FakeWorker fresh(coordinator_->address(), other, Recorded(), "boot2");
  const v1::Study third = Run(larger);
  EXPECT_EQ(Calibrated(third).size(), measured.size() + static_cast<std::size_t>(reused));
  EXPECT_EQ(Recommend(third.name()).reused_op_times(), 0);
  EXPECT_EQ(Decision(third), Decision(second));
  EXPECT_EQ(Decision(first), wanted) << "what came later is no news to it";
}

TEST_F(ReusedOpTimes, OtherBuildOrDifferentWorkersMeasureAgain) {
  Open();
  std::size_t all = 0;
  {
    FakeWorker worker(coordinator_->address(), Gpus(), Recorded());
    all = Calibrated(Run(GpuSpec())).size();
    FakeWorker beside(coordinator_->address(), Gpus("0.1.0+def"), Recorded(), "boot", "workers/other");
    EXPECT_EQ(Calibrated(Run(GpuSpec())).size(), all) << "either may be given the job";
    beside.Stop();
    EXPECT_EQ(Calibrated(Run(GpuSpec())).size(), 0u);
  }
  for (const char* build : {"0.1.0+ghi", "0.1.0+abc-dirty", "0.1.0+abc-dirty"}) {
    FakeWorker worker(coordinator_->address(), Gpus(build), Recorded(), build);
    EXPECT_EQ(Calibrated(Run(GpuSpec())).size(), all) << build;
  }
}

TEST_F(ReusedOpTimes, WaitsForWorkerStartedWithTheStudy) {
  Open();
  {
    FakeWorker worker(coordinator_->address(), Gpus(), Recorded());
    Run(GpuSpec());
  }
  const v1::Study study = Create(GpuSpec());
  ASSERT_TRUE(Start(study.name()).ok());
  FakeWorker worker(coordinator_->address(), Gpus(), Recorded(), "boot2");
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_TRUE(Calibrated(study).empty());
}

TEST_F(ReusedOpTimes, TimesOfACpuHoldOnItsHost) {
  Open();
  const auto cpu = [](const char* host) {
    v1::Inventory inventory;
    inventory.set_slots(4);
    inventory.set_device_kind("cpu");
    inventory.set_device_fingerprint("CPU X");
    inventory.set_build_id("0.1.0+abc");
    inventory.set_hostname(host);
    return inventory;
  };
  std::size_t all = 0;
  {
    FakeWorker worker(coordinator_->address(), cpu("here"), Recorded());
    all = Calibrated(Run(SmallSpec())).size();
    EXPECT_GT(all, 10u);
    EXPECT_EQ(Calibrated(Run(SmallSpec())).size(), 0u);
  }
  FakeWorker worker(coordinator_->address(), cpu("there"), Recorded(), "boot2");
  EXPECT_EQ(Calibrated(Run(SmallSpec())).size(), all);
}

// A study calibrated by an older engine and stopped midway.
TEST_F(ReusedOpTimes, CalibrationWithUnknownOpsIsRepeated) {
  Open();
  const v1::Study study = Create(SmallSpec());
  {
    absl::Notification measuring;
    absl::Notification paused;
    FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
      if (job.has_train() && !measuring.HasBeenNotified()) {
        measuring.Notify();
        paused.WaitForNotification();
      }
      return FakeWorker::ByFormula(job);
    });
    ASSERT_TRUE(Start(study.name()).ok());
    measuring.WaitForNotification();
    EXPECT_TRUE(Pause(study.name()).ok());
    paused.Notify();
  }
  Close();
  {
    SQLite::Database db(dir_.File("autocfg.db"), SQLite::OPEN_READWRITE);
    SQLite::Statement read(db, "SELECT result FROM calibrations");
    ASSERT_TRUE(read.executeStep());
    v1::CalibrateResult result;
    const SQLite::Column bytes = read.getColumn(0);
    ASSERT_TRUE(result.ParseFromArray(bytes.getBlob(), bytes.getBytes()));
    read.reset();
    result.mutable_ops(0)->mutable_op()->set_kind("op_of_an_older_engine");
    const std::string older = result.SerializeAsString();
    SQLite::Statement write(db, "UPDATE calibrations SET result = ?");
    write.bind(1, older.data(), static_cast<int>(older.size()));
    ASSERT_EQ(write.exec(), 1);
  }
  Open();
  FakeWorker worker(coordinator_->address(), Recorded(), "boot2");
  ASSERT_TRUE(Resume(study.name()).ok());
  const v1::Study done = Finish(study.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE) << done.message();
  EXPECT_EQ(worker.runs().at(study.name() + "/calibration"), 1);
  EXPECT_GT(Calibrated(study).size(), 10u);
  EXPECT_EQ(Recommend(study.name()).best().plan_text(), "tp=1,pp=1,dp=4,mbs=1,zero=1");
}

}  // namespace
}  // namespace autocfg::server
