// `autocfg trials --log` on a database: the logs of a trial that failed twice, of one that has none, and of a
// calibration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/cli/one_clear_line.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class TrialLogTest : public testing::Test {
 protected:
  // Trial 1 fails twice, the first time with a log; trial 2 waits.
  void SetUp() override {
    const auto opened = server::OpenSqliteStore(database_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    server::Store& store = **opened;
    const auto study = store.CreateStudy("", v1::Study(), 100);
    ASSERT_TRUE(study.ok()) << study.status();
    const std::int64_t id = *server::ParseStudyName(study->name());
    ASSERT_TRUE(server::SetStudyState(store, id, v1::STUDY_STATE_RUNNING).ok());
    for (const std::string plan : {"tp=1,pp=1,dp=2,mbs=1", "tp=2,pp=1,dp=1,mbs=1"}) {
      v1::Trial trial;
      *trial.mutable_plan() = ToProto(*ParsePlanText(plan));
      trial.set_plan_text(plan);
      v1::Job job;
      job.set_ranks(1);
      job.set_device("cpu");
      job.mutable_train()->set_steps(2);
      ASSERT_TRUE(store.EnqueueTrial(id, trial, job, 2).ok());
    }
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("boot");
    worker.mutable_inventory()->set_slots(1);
    worker.mutable_inventory()->set_device_kind("cpu");
    const auto epoch = store.RegisterWorker(worker, 100);
    ASSERT_TRUE(epoch.ok()) << epoch.status();
    epoch_ = *epoch;
    FailNext(store, "studies/1/trials/1", {"rank 0:\nstep 1\n", "\x1b[31mno room\n"});
    FailNext(store, "studies/1/trials/1", {});
  }

  // Runs the next job, which must be `name`: it fails after these parts of its log.
  void FailNext(server::Store& store, const std::string& name, const std::vector<std::string>& log) {
    const auto leased = store.LeaseJobs({{"workers/a", epoch_}}, {{"workers/a", epoch_}}, 100, 10);
    ASSERT_TRUE(leased.ok() && leased->leases.size() == 1) << leased.status();
    const server::Lease& lease = leased->leases[0];
    ASSERT_EQ(lease.job.name(), name);
    for (const std::string& part : log)
      ASSERT_TRUE(store.AppendLog(lease.lease_id, lease.fencing_token, part).ok());
    v1::ReportTrialRequest report;
    report.set_worker("workers/a");
    report.set_session_epoch(epoch_);
    report.set_lease_id(lease.lease_id);
    report.set_fencing_token(lease.fencing_token);
    report.set_attempt(lease.attempt);
    report.set_request_id(lease.lease_id);
    report.set_outcome(v1::OUTCOME_FAILED);
    report.set_failure(v1::FAILURE_KIND_PROCESS);
    report.set_message("rank 0: no room");
    const absl::Status reported = store.Report(report, 101);
    ASSERT_TRUE(reported.ok()) << reported;
  }

  Finished Run(std::vector<std::string> args) {
    args.insert(args.end(), {"--db", database_});
    return RunAutocfg(home_, args);
  }

  std::int64_t epoch_ = 0;
  const ScratchDirectory home_;
  const std::string database_ = home_ / "log.db";
};

TEST_F(TrialLogTest, ShowsTheLogOfEachAttempt) {
  const Finished log = Run({"trials", "--study", "1", "--log", "1"});
  EXPECT_EQ(log.exit_code, 0) << log.err;
  EXPECT_EQ(log.out,
            "studies/1/trials/1, attempt 1, failed on workers/a: rank 0: no room\n"
            "rank 0:\nstep 1\n?[31mno room\n"
            "\n"
            "studies/1/trials/1, attempt 2, failed on workers/a: rank 0: no room\n"
            "no log is kept; workers send those of runs that fail\n");
  for (const std::vector<std::string>& same : {std::vector<std::string>{"trials", "1", "--log", "1"},
                                               {"trials", "--log", "studies/1/trials/1"},
                                               {"trials", "--log", "1/trials/1"},
                                               {"trials", "--log", "1"}})  // of the newest study
    EXPECT_EQ(Run(same).out, log.out);
}

TEST_F(TrialLogTest, AsJson) {
  const Finished log = Run({"trials", "--log", "1", "--json"});
  ASSERT_EQ(log.exit_code, 0) << log.err;
  const Json attempts = Json::parse(log.out);
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0], Json::parse(R"({"trial": "studies/1/trials/1", "attempt": 1, "state": "failed",
    "workers": ["workers/a"], "message": "rank 0: no room",
    "log": "rank 0:\nstep 1\n\u001b[31mno room\n", "left_out_bytes": 0})"));
  EXPECT_EQ(attempts[1]["log"], "");
  EXPECT_EQ(Run({"trials", "--log", "2", "--json"}).out, "[]\n");
  EXPECT_EQ(Run({"trials", "--log", "2"}).out, "studies/1/trials/2 has no attempt yet\n");
}

TEST_F(TrialLogTest, TheListSaysHowToSeeIt) {
  EXPECT_THAT(Run({"trials", "1"}).out, AllOf(HasSubstr("\nits log: autocfg trials --db " + database_),
                                              HasSubstr("--study 1 --log 1\n")));
}

TEST_F(TrialLogTest, OfACalibration) {
  {
    const auto opened = server::OpenSqliteStore(database_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    server::Store& store = **opened;
    ASSERT_TRUE(store.CancelJobs(1).ok());
    ASSERT_EQ(store.CreateStudy("", v1::Study(), 102)->name(), "studies/2");
    ASSERT_TRUE(server::SetStudyState(store, 2, v1::STUDY_STATE_RUNNING).ok());
    v1::Job job;
    job.set_ranks(1);
    job.set_device("cpu");
    job.mutable_calibrate()->add_ops()->set_kind("matmul");
    ASSERT_TRUE(store.EnqueueCalibration(2, job, 2, {}).ok());
    FailNext(store, "studies/2/calibration", {"rank 0:\nno GPU\n"});
    FailNext(store, "studies/2/calibration", {});
  }
  const Finished log = Run({"trials", "2", "--log", "calibration"});
  EXPECT_EQ(log.exit_code, 0) << log.err;
  EXPECT_EQ(log.out,
            "studies/2/calibration, attempt 1\nrank 0:\nno GPU\n\n"
            "studies/2/calibration, attempt 2\nno log; workers send it once an attempt has failed\n");
  for (const std::string same : {"2/calibration", "studies/2/calibration", "calibration"})
    EXPECT_EQ(Run({"trials", "--log", same}).out, log.out) << same;
  const Json attempts = Json::parse(Run({"trials", "--log", "calibration", "--json"}).out);
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0], Json::parse(R"({"trial": "studies/2/calibration", "attempt": 1, "state": null,
    "workers": null, "message": null, "log": "rank 0:\nno GPU\n", "left_out_bytes": 0})"));
  EXPECT_THAT(Run({"trials", "2"}).out,
              AllOf(HasSubstr("its log: "), HasSubstr("--study 2"), HasSubstr("--log calibration\n")));
  EXPECT_EQ(Run({"trials", "1", "--log", "calibration"}).out, "study 1 has run no calibration\n");
  EXPECT_EQ(Run({"trials", "1", "--log", "calibration", "--json"}).out, "[]\n");
  ExpectOneClearLine({"trials", "2", "--log", "2/calibration", "--db", database_}, 2,
                     {"--log names a study, and so does --study"});
  ExpectOneClearLine({"trials", "--log", "x/calibration", "--db", database_}, 2, {"'x'"});
}

TEST_F(TrialLogTest, RefusesWhatIsNoTrial) {
  ExpectOneClearLine({"trials", "--log", "7", "--db", database_}, 2,
                     {"--log: studies/1 has no trial 7", "autocfg trials"});
  ExpectOneClearLine({"trials", "--log", "x", "--db", database_}, 2, {"--log", "'x'"});
  ExpectOneClearLine({"trials", "--log", "1/trials/x", "--db", database_}, 2, {"--log", "'x'"});
  ExpectOneClearLine({"trials", "--log", "9/trials/1", "--db", database_}, 2, {"studies/9"});
  ExpectOneClearLine({"trials", "1", "--log", "1/trials/1", "--db", database_}, 2,
                     {"--log names a study, and so does --study"});
}

// The word of a verb that takes nothing else is the study.
TEST_F(TrialLogTest, AStudyNeedsNoOption) {
  EXPECT_EQ(Run({"trials", "1"}).out, Run({"trials", "--study", "1"}).out);
  EXPECT_THAT(Run({"watch", "1"}).err, HasSubstr("study 1 is interrupted"));
  ExpectOneClearLine({"trials", "5", "--db", database_}, 2, {"--study: no study studies/5"});
  ExpectOneClearLine({"report", "5", "--output", home_ / "r.html", "--db", database_}, 2, {"studies/5"});
  ExpectOneClearLine({"export", "5", "--to", "megatron", "--db", database_}, 2, {"studies/5"});
  ExpectOneClearLine({"explain", "5", "--db", database_}, 2, {"studies/5"});
  ExpectOneClearLine({"trials", "1", "2", "--db", database_}, 2, {"unexpected '2'"});
  ExpectOneClearLine({"predict", "1", "--db", database_}, 2, {"unexpected '1'", "did you mean --study 1?"});
  const Finished cancelled = Run({"cancel", "1"});
  EXPECT_EQ(cancelled.out, "study 1 cancelled\n") << cancelled.err;
}

}  // namespace
}  // namespace autocfg::cli
