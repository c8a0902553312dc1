// `autocfg trials --log` on a database: the logs of a trial that failed twice, and of one that has none.
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
    for (int attempt = 1; attempt <= 2; ++attempt) {
      const auto leased = store.LeaseJobs({{"workers/a", *epoch}}, {{"workers/a", *epoch}}, 100, 10);
      ASSERT_TRUE(leased.ok() && leased->leases.size() == 1) << leased.status();
      const server::Lease& lease = leased->leases[0];
      ASSERT_EQ(lease.job.name(), "studies/1/trials/1");
      if (attempt == 1) {
        ASSERT_TRUE(store.AppendLog(lease.lease_id, lease.fencing_token, "rank 0:\nstep 1\n").ok());
        ASSERT_TRUE(store.AppendLog(lease.lease_id, lease.fencing_token, "\x1b[31mno room\n").ok());
      }
      v1::ReportTrialRequest report;
      report.set_worker("workers/a");
      report.set_session_epoch(*epoch);
      report.set_lease_id(lease.lease_id);
      report.set_fencing_token(lease.fencing_token);
      report.set_attempt(lease.attempt);
      report.set_request_id("report" + std::to_string(attempt));
      report.set_outcome(v1::OUTCOME_FAILED);
      report.set_failure(v1::FAILURE_KIND_PROCESS);
      report.set_message("rank 0: no room");
      const absl::Status reported = store.Report(report, 101);
      ASSERT_TRUE(reported.ok()) << reported;
    }
  }

  Finished Run(std::vector<std::string> args) {
    args.insert(args.end(), {"--db", database_});
    return RunAutocfg(home_, args);
  }

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
