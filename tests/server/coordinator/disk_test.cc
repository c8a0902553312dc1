// Coordinators on a disk that fails or is full: reads go on, writes say why, and studies go on by themselves.
//
// AUTOCFG_FAULT_ROUNDS=all: many places of a study at which the disk fails. Default: a few.
#include <sqlite3.h>
#include <stdlib.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "SQLiteCpp/Database.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/support/faulty_disk.h"

namespace autocfg::server {
namespace {

constexpr const char* kBestOfSmall = "tp=1,pp=1,dp=4,mbs=1,zero=3";

class CoordinatorDisk : public CoordinatorFixture {
 protected:
  void TearDown() override {
    disk_.Heal();
    Close();
  }
  // Waits until the study has ended.
  v1::Study Ended(const std::string& name) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (Get(name).state() == v1::STUDY_STATE_RUNNING && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return Get(name);
  }
  void ExpectIntact() {
    Close();
    SQLite::Database db(dir_.File("autocfg.db"), SQLite::OPEN_READWRITE);
    EXPECT_EQ(db.execAndGet("PRAGMA integrity_check").getString(), "ok");
  }

  FaultyDisk disk_{dir_.path().string()};
};

TEST_F(CoordinatorDisk, FullDiskAnswersUnavailableAndReadsGoOn) {
  Open(1);
  const v1::Study study = Create(SmallSpec());
  FakeWorker worker(coordinator_->address());
  disk_.Fail(FaultyDisk::Op::kWrite, 1, SQLITE_FULL, FaultyDisk::kForEver);
  for (const grpc::Status& status : {CreateStatus(SmallSpec()), Start(study.name()), Cancel(study.name())}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_THAT(status.error_message(),
                testing::HasSubstr("no space for database " + dir_.File("autocfg.db")));
    EXPECT_THAT(status.error_message(), testing::Not(testing::HasSubstr("\n")));
  }
  EXPECT_EQ(Get(study.name()).state(), v1::STUDY_STATE_CREATED);
  EXPECT_EQ(Trials(study.name()).size(), 0u);
  disk_.Heal();
  ASSERT_TRUE(Start(study.name()).ok());
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
}

TEST_F(CoordinatorDisk, FullDiskInTheMiddleOfAStudy) {
  Open(1);
  const v1::Study study = Create(ExhaustiveSpec());
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(study.name()).ok());
  while (worker.jobs_done() < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  disk_.Fail(FaultyDisk::Op::kWrite, 1, SQLITE_FULL, FaultyDisk::kForEver);
  const Stream stream = Watch(study.name());
  EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << "somebody has to make room";
  EXPECT_THAT(Get(study.name()).waiting(), testing::HasSubstr("no space for database"));
  const std::size_t stored = Trials(study.name()).size();
  EXPECT_GE(stored, 5u);
  disk_.Heal();
  const v1::Study done = Ended(study.name());
  EXPECT_EQ(done.state(), v1::STUDY_STATE_DONE) << done.message() << done.waiting();
  EXPECT_EQ(Recommend(study.name()).best().plan_text(), kBestOfSmall);
  ExpectIntact();
}

TEST_F(CoordinatorDisk, FaultsInTheMiddleOfAStudyDoNotChangeItsAnswer) {
  const char* const given = ::getenv("AUTOCFG_FAULT_ROUNDS");
  const int rounds = given != nullptr && std::string(given) == "all" ? 100 : 4;
  std::mt19937_64 random(std::random_device{}());
  Open(1);
  const v1::Study first = Create(SmallSpec());
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(first.name()).ok());
  Finish(first.name());
  v1::Recommendation wanted = Recommend(first.name());
  wanted.clear_study();
  int failed = 0;
  for (int round = 0; round < rounds; ++round) {
    const v1::Study study = Create(SmallSpec());
    const bool write = round % 2 == 0;
    const auto n = static_cast<std::int64_t>(1 + random() % (write ? 600 : 60));
    const auto times = static_cast<std::int64_t>(1 + random() % 2);
    SCOPED_TRACE(fmt::format("{} {}, {} times", write ? "write" : "sync", n, times));
    disk_.Fail(write ? FaultyDisk::Op::kWrite : FaultyDisk::Op::kSync, n,
               write ? SQLITE_IOERR_WRITE : SQLITE_IOERR_FSYNC, times);
    while (!Start(study.name()).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const v1::Study done = Ended(study.name());
    ASSERT_EQ(done.state(), v1::STUDY_STATE_DONE) << done.message() << done.waiting();
    failed += disk_.failed() > 0 ? 1 : 0;
    disk_.Heal();
    v1::Recommendation answer = Recommend(study.name());
    answer.clear_study();
    EXPECT_EQ(Decision(answer), Decision(wanted));
  }
  EXPECT_GT(failed, 0);
  ExpectIntact();
}

}  // namespace
}  // namespace autocfg::server
