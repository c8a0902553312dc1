// A study as a file: what is written is what is read, and no file that is not whole and sensible is read.
#include "server/portable/study_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>

#include "base/fnv1a.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/search_problem.h"
#include "tests/server/store/study_edits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unprivileged.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

class StudyFileTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *OpenMemoryStore();
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("b");
    worker.mutable_inventory()->set_slots(4);
    epoch_ = *store_->RegisterWorker(worker, 100);
  }

  static v1::SearchSpec Spec() {
    v1::SearchSpec spec;
    v1::ModelSpec& model = *spec.mutable_model();
    model.set_name("tiny");
    model.set_layers(4);
    model.set_hidden(64);
    model.set_heads(4);
    model.set_vocab(512);
    model.set_max_seq_len(32);
    spec.mutable_cluster()->set_name("local");
    spec.mutable_cluster()->set_local(true);
    v1::NodeGroup& group = *spec.mutable_cluster()->add_groups();
    group.mutable_device()->set_name("cpu");
    group.mutable_device()->set_kind("cpu");
    group.mutable_device()->set_memory_bytes(std::int64_t{1} << 30);
    group.set_nodes(1);
    group.set_gpus_per_node(4);
    group.set_ranks_per_core(1);
    spec.mutable_workload()->set_global_batch(8);
    spec.mutable_workload()->set_seq_len(32);
    spec.mutable_workload()->set_precision("fp32");
    return spec;
  }

  // An ended study: a calibration, a measured trial in its second attempt, one that timed out.
  std::int64_t EndedStudy() {
    v1::Study study;
    *study.mutable_spec() = ToProto(*ParseSearchSpec(Spec()));
    study.set_fingerprint(SpecFingerprint(study.spec()));
    study.set_owner("me");
    const std::int64_t id = *ParseStudyName(store_->CreateStudy("", study, 100.25)->name());
    EXPECT_TRUE(SetStudyState(*store_, id, v1::STUDY_STATE_RUNNING).ok());
    v1::Job calibration;
    calibration.set_ranks(1);
    calibration.mutable_calibrate()->set_time_budget_s(1);
    calibration.mutable_calibrate()->add_ops()->set_kind("matmul");
    EXPECT_TRUE(store_->EnqueueCalibration(id, calibration, 2, {}).ok());
    for (const char* plan : {"tp=1,pp=1,dp=4,mbs=1", "tp=2,pp=1,dp=2,mbs=1"}) {
      v1::Trial trial;
      trial.set_plan_text(plan);
      trial.mutable_plan()->set_tp(2);
      trial.mutable_predicted()->set_step_time_s(0.1);
      v1::Job job;
      job.set_ranks(1);
      job.mutable_train()->set_steps(2);
      job.mutable_train()->set_warmup_steps_untimed(1);
      EXPECT_TRUE(store_->EnqueueTrial(id, trial, job, 2).ok());
    }
    Report(v1::OUTCOME_MEASURED, 201);
    Report(v1::OUTCOME_REFUSED, 202);
    Report(v1::OUTCOME_MEASURED, 204);
    Report(v1::OUTCOME_TIMED_OUT, 205);
    const auto ended = store_->ModifyStudy(id,
                                           [](v1::Study& edited) {
                                             edited.set_state(v1::STUDY_STATE_DONE);
                                             edited.set_end_time_s(300);
                                             edited.mutable_best()->set_plan_text("tp=1,pp=1,dp=4,mbs=1");
                                             return absl::OkStatus();
                                           },
                                           {.add_wall_s = 7, .add_plan_cpu_s = 0.3});
    EXPECT_TRUE(ended.ok()) << ended.status();
    return id;
  }
  void Report(v1::Outcome outcome, double now_s) {
    const auto assigned = store_->LeaseJobs({{"workers/a", epoch_}}, {{"workers/a", epoch_}}, now_s - 1, 10);
    ASSERT_TRUE(assigned.ok() && assigned->leases.size() == 1) << assigned.status();
    const Lease& lease = assigned->leases.front();
    v1::ReportTrialRequest report;
    report.set_worker("workers/a");
    report.set_session_epoch(epoch_);
    report.set_lease_id(lease.lease_id);
    report.set_fencing_token(lease.fencing_token);
    report.set_attempt(lease.attempt);
    report.set_request_id(lease.lease_id);
    report.set_outcome(outcome);
    report.set_message("a \"message\"\nof two lines, \xc3\xa9");
    if (outcome == v1::OUTCOME_MEASURED && lease.key.trial == 0) {
      v1::OpTime& time = *report.mutable_calibration()->add_ops();
      *time.mutable_op() = lease.job.calibrate().ops(0);
      time.set_seconds(1.0 / 3);
    } else if (outcome == v1::OUTCOME_MEASURED) {
      report.mutable_measurement()->add_step_time_s(0.1);
      report.mutable_measurement()->set_median_step_time_s(0.1);
      report.mutable_measurement()->set_device_s(3);
    }
    ASSERT_TRUE(store_->Report(report, now_s).ok());
  }

  // Writes an ended study to path_ and returns the file's text.
  std::string Export() {
    const auto copy = ReadStudyCopy(*store_, EndedStudy());
    EXPECT_TRUE(copy.ok()) << copy.status();
    const auto written = WriteStudyFile(path_, *copy, /*database=*/"", /*replace=*/true);
    EXPECT_TRUE(written.ok()) << written.status();
    return TextOf(path_);
  }
  // Writes the file with another text of a line and a digest that matches.
  void Rewrite(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    text.resize(text.rfind('\n', text.size() - 2) + 1);
    WriteText(path_, text + fmt::format("{{\"trials\":2,\"digest\":\"{:016x}\"}}\n", base::Fnv1a(text)));
  }
  void ExpectRefused(const std::string& words) {
    const absl::Status status = ReadStudyFile(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << words << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  }

  TempDir dir_;
  std::string path_ = dir_.File("study.jsonl");
  std::unique_ptr<Store> store_;
  std::int64_t epoch_ = 0;
};

TEST_F(StudyFileTest, AnotherDatabaseHasEverything) {
  const std::int64_t id = EndedStudy();
  const auto copy = ReadStudyCopy(*store_, id);
  ASSERT_TRUE(copy.ok()) << copy.status();
  const auto written = WriteStudyFile(path_, *copy, /*database=*/"", /*replace=*/false);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->trials, 2);
  EXPECT_EQ(written->bytes, TextOf(path_).size());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U) << "its owner's alone";

  const auto other = *OpenMemoryStore();
  v1::Study first;
  first.set_fingerprint("first");
  ASSERT_TRUE(other->CreateStudy("", first, 1).ok());
  const auto read = ReadStudyFile(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto study = other->ImportStudy(*read);
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->name(), "studies/2");
  Store::StudyCopy again = *ReadStudyCopy(*other, 2);
  again.study.set_name(copy->study.name());
  EXPECT_EQ(again.study.DebugString(), copy->study.DebugString());
  EXPECT_EQ(again.usage.wall_s, copy->usage.wall_s);
  EXPECT_EQ(again.usage.plan_cpu_s, copy->usage.plan_cpu_s);
  EXPECT_DOUBLE_EQ(again.usage.device_s, copy->usage.device_s);
  ASSERT_TRUE(again.calibration.has_value());
  EXPECT_EQ(again.calibration->result.DebugString(), copy->calibration->result.DebugString());
  ASSERT_EQ(again.trials.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    again.trials[i].set_name(copy->trials[i].name());
    EXPECT_EQ(again.trials[i].DebugString(), copy->trials[i].DebugString());
  }
  EXPECT_EQ(again.trials[0].attempts_size(), 2);
}

TEST_F(StudyFileTest, OnlyEndedStudiesAreExported) {
  v1::Study study;
  study.set_fingerprint("f");
  ASSERT_TRUE(store_->CreateStudy("", study, 1).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadStudyCopy(*store_, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadStudyCopy(*store_, 7).status()));
}

TEST_F(StudyFileTest, ExistingFilesAreKept) {
  WriteText(path_, "old");
  const auto copy = ReadStudyCopy(*store_, EndedStudy());
  const auto write = [&](const std::string& path, bool replace) {
    return WriteStudyFile(path, *copy, /*database=*/"", replace).status();
  };
  EXPECT_TRUE(absl::IsAlreadyExists(write(path_, false)));
  EXPECT_EQ(TextOf(path_), "old");
  EXPECT_TRUE(write(path_, true).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(write(dir_.path().string(), true)));
  EXPECT_TRUE(absl::IsNotFound(write(dir_.File("no/where"), true)));
  EXPECT_TRUE(absl::IsInvalidArgument(write("", true)));
}

TEST_F(StudyFileTest, NeverReplacesADatabaseInUseOrASpecialFile) {
  const auto copy = ReadStudyCopy(*store_, EndedStudy());
  const std::string database = dir_.File("a.db"), pipe = dir_.File("pipe");
  WriteText(database, "a database");
  ASSERT_EQ(symlink(database.c_str(), dir_.File("soft.db").c_str()), 0);
  ASSERT_EQ(link(database.c_str(), dir_.File("hard.db").c_str()), 0);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto expect_refused = [&](const std::string& path, const std::string& words) {
    const absl::Status status = WriteStudyFile(path, *copy, database, /*replace=*/true).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << path << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  for (const std::string& path : {database, dir_.File("soft.db"), dir_.File("hard.db")})
    expect_refused(path, "is the database itself");
  for (const char* suffix : {"-wal", "-shm", "-journal", ".lock", ".sock"})
    expect_refused(database + suffix, "belongs to the database");
  const auto other = OpenSqliteStore(dir_.File("other.db"));
  ASSERT_TRUE(other.ok()) << other.status();
  expect_refused(dir_.File("other.db"), "is a database in use");
  for (const std::string& path : {pipe, std::string("/dev/null")})
    expect_refused(path, "is not a regular file");
  EXPECT_EQ(TextOf(database), "a database");
  struct stat info {};
  ASSERT_EQ(::stat(pipe.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST_F(StudyFileTest, FilesThatAreNone) {
  EXPECT_TRUE(absl::IsNotFound(ReadStudyFile(dir_.File("missing")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadStudyFile(dir_.path().string()).status()));
  for (const char* text : {"", "\n", "text\n", "{}\n", "[1]\n", "{\"study\":{}}\n", "\0\xff\n"}) {
    WriteText(path_, text);
    EXPECT_TRUE(absl::IsInvalidArgument(ReadStudyFile(path_).status())) << text;
  }
  WriteText(path_, std::string(100'000, '[') + "\n");
  ExpectRefused("line 1: this is not a study");
}

TEST_F(StudyFileTest, SaysWhyAFileCannotBeRead) {
  Export();
  const std::filesystem::path hidden = dir_.path() / "hidden";
  std::filesystem::create_directory(hidden);
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0), 0);
  ASSERT_EQ(chmod(hidden.c_str(), 0), 0);
  for (const std::string& path : {path_, (hidden / "study.jsonl").string()}) {
    const absl::Status status = [&] {
      const Unprivileged user;
      return ReadStudyFile(path).status();
    }();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(path + ": cannot be read: Permission denied; give this user access"));
  }
  chmod(hidden.c_str(), 0700);  // so that it can be removed
}

TEST_F(StudyFileTest, EachCutIsRefused) {
  const std::string text = Export();
  ASSERT_TRUE(ReadStudyFile(path_).ok());
  for (std::size_t bytes = 0; bytes < text.size(); bytes += bytes < text.size() - 80 ? 13 : 1) {
    WriteText(path_, text.substr(0, bytes));
    ExpectRefused(path_);
  }
  WriteText(path_, text + "more");
  ExpectRefused("there is more after the end");
}

TEST_F(StudyFileTest, EachChangedByteIsRefused) {
  const std::string text = Export();
  std::mt19937 random(1);
  for (std::size_t at = 0; at + 1 < text.size(); at += 7) {
    std::string changed = text;
    changed[at] = static_cast<char>(random());
    if (changed[at] == text[at]) continue;
    WriteText(path_, changed);
    EXPECT_FALSE(ReadStudyFile(path_).ok()) << "at " << at << ": " << text.substr(at, 20);
  }
}

TEST_F(StudyFileTest, WhatCannotBeIsRefused) {
  const std::string text = Export();
  const auto refuse = [&](const std::string& from, const std::string& to, const std::string& words) {
    SCOPED_TRACE(from + " -> " + to);
    ASSERT_NO_FATAL_FAILURE(Rewrite(text, from, to));
    ExpectRefused(words);
  };
  refuse("\"autocfg_study\":1", "\"autocfg_study\":2", "line 1: the file has version 2");
  refuse("\"autocfg_study\":1", "\"autocfg_study\":\"1\"", "version");
  refuse("STUDY_STATE_DONE", "STUDY_STATE_RUNNING", "line 1: state is no end state");
  refuse("STUDY_STATE_DONE", "STUDY_STATE_NEW", "line 1: study:");
  refuse("\"layers\":\"4\"", "\"layers\":\"-4\"", "line 1: spec.model");
  refuse("\"hidden\":", "\"hidden_units\":", "line 1: study:");
  refuse("\"wall_s\":", "\"wall_s\":-", "usage is no time");
  refuse("\"wall_s\":", "\"wall\":", "usage has no three times");
  refuse("\"create_time_s\":", "\"create_time_s\":-", "is no Unix time");
  refuse("\"create_time_s\":100.25", "\"create_time_s\":\"NaN\"", "create_time_s is not a finite number");
  refuse("\"owner\":\"me\"", "\"owner\":\"\\u001b[2J\"", "owner is too long, or has control characters");
  refuse("\"owner\":\"me\"", "\"owner\":\"" + std::string(20'000, 'x') + "\"", "owner is too long");
  refuse("\"reused_ops\":0", "\"reused_ops\":5", "reused_ops is out of range");
  refuse("\"reused_ops\":0", "\"reused_ops\":null", "reused_ops is no number");
  refuse("\"seconds\":0.33", "\"seconds\":-0.33", "calibration.ops");
  refuse("\"trials\":2", "\"trials\":3", "line 4:");
  refuse("\"trials\":2", "\"trials\":1", "digest");
  refuse("\"trials\":2", "\"trials\":1e300", "trials is no number");
  refuse("studies/1/trials/1", "studies/1/trials/0", "line 2:");
  refuse("studies/1/trials/1", "studies/1/trials/999999999999", "line 2: name has a number");
  refuse("\"plan_text\":\"tp=2", "\"plan_text\":\"tp=x", "line 3:");
  refuse("TRIAL_STATE_TIMED_OUT", "TRIAL_STATE_QUEUED", "line 3: state is no end state");
  refuse("TRIAL_STATE_TIMED_OUT", "TRIAL_STATE_MEASURED", "line 3: measured does not agree");
  refuse("\"step_time_s\":[0.1]", "\"step_time_s\":[-0.1]", "measurement.step_time_s");
  refuse("\"worker\":\"workers/a\"", "\"worker\":\"a\"", "line 2:");
  refuse("\"number\":\"1\"", "\"number\":\"0\"", "attempts.number is out of range");
}

TEST_F(StudyFileTest, DeepNestingIsRefused) {
  const std::string text = Export(), deep(1'000'000, '['), up(1'000'000, ']');
  WriteText(path_, "{\"autocfg_study\":1,\"study\":" + deep + up + "}\n");
  ExpectRefused("line 1: this is not a study");
  std::string objects;
  for (int i = 0; i < 300'000; ++i) objects += "{\"plan\":";
  WriteText(path_, text.substr(0, text.find('\n') + 1) + objects + "1" + std::string(300'000, '}') + "\n");
  ExpectRefused("line 2:");
  WriteText(path_, text.substr(0, text.rfind('\n', text.size() - 2) + 1) + deep + up + "\n");
  ExpectRefused("digest");
}

TEST_F(StudyFileTest, TrialsWithTheSameNumberAreRefusedByTheStore) {
  ASSERT_NO_FATAL_FAILURE(Rewrite(Export(), "studies/1/trials/2", "studies/1/trials/1"));
  const auto read = ReadStudyFile(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(absl::IsInvalidArgument(store_->ImportStudy(*read).status()));
}

}  // namespace
}  // namespace autocfg::server
