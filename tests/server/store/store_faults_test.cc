// A disk that fails at every place of a study, and one that loses power: each call ends with a clear error,
// the file stays intact, nothing that was acknowledged is lost, and the study goes on to the same answer.
//
// AUTOCFG_FAULT_ROUNDS=all: every place where a fault can be, and 200 power losses. Default: a few of them.
// AUTOCFG_FAULT_SEED: seed of the random choices, which a failure prints.
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <memory>
#include <random>
#include <string>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/store/small_study.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

// A small study then has several checkpoints, and reads pages again.
int UseLittleMemory(sqlite3* db, char**, const sqlite3_api_routines*) {
  const int code = sqlite3_wal_autocheckpoint(db, 40);
  return code == SQLITE_OK ? sqlite3_exec(db, "PRAGMA cache_size = 4", nullptr, nullptr, nullptr) : code;
}

// A fault at every `Stride()`-th place is tried.
std::int64_t Stride(std::int64_t few) {
  const char* const rounds = ::getenv("AUTOCFG_FAULT_ROUNDS");
  return rounds != nullptr && std::string(rounds) == "all" ? 1 : few;
}

// A clear error of a storage that may recover: one line that names the file, and not "damaged".
void ExpectClear(const absl::Status& status, const std::string& path) {
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(path));
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
}

class StoreFaults : public testing::Test {
 protected:
  void SetUp() override { sqlite3_auto_extension(reinterpret_cast<void (*)()>(UseLittleMemory)); }
  void TearDown() override { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(UseLittleMemory)); }

  struct Place {
    TempDir dir;
    std::string path = dir.File("a.db");
    FaultyDisk disk{dir.path().string()};
    SmallStudy study;
    std::unique_ptr<Store> store;
  };

  // Opens the store if it is closed, and runs the study.
  static absl::Status Advance(Place& place) {
    if (place.store == nullptr) {
      AUTOCFG_ASSIGN_OR_RETURN(place.store, OpenSqliteStore(place.path));
      AUTOCFG_RETURN_IF_ERROR(place.store->GrantAnew(100, 10).status());
      EXPECT_EQ(place.study.Lost(*place.store), "");
    }
    return place.study.Run(*place.store);
  }

  static void ExpectIntact(Place& place) {
    place.store.reset();
    SQLite::Database db(place.path, SQLite::OPEN_READWRITE);
    EXPECT_EQ(db.execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM pragma_foreign_key_check").getInt(), 0);
  }

  // Returns the answer of the study on a good disk.
  static std::string Wanted() {
    Place place;
    EXPECT_TRUE(Advance(place).ok());
    const auto answer = SmallStudy::Answer(*place.store);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : "";
  }

  static void ExpectAnswer(Place& place, const std::string& wanted) {
    auto store = OpenSqliteStore(place.path);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(place.study.Lost(**store), "");
    const auto answer = SmallStudy::Answer(**store);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, wanted);
  }

  // Lets the n-th operation fail, for every n of a study. `times`: and so many operations from there.
  static void FailEach(FaultyDisk::Op op, int error, std::int64_t stride, std::int64_t times) {
    const std::string wanted = Wanted();
    std::int64_t rounds = 0, failures = 0;
    for (std::int64_t n = 1;; n += stride) {
      for (const bool reopens : {false, true}) {
        if (stride > 1 && reopens == (rounds % 2 == 0)) continue;
        SCOPED_TRACE(fmt::format("operation {}, {}", n, reopens ? "reopened" : "the same store goes on"));
        Place place;
        place.disk.Fail(op, n, error, times);
        absl::Status status = Advance(place);
        if (status.ok() && place.disk.failed() == 0) {
          EXPECT_GT(failures, rounds / 2) << "faults without an effect";
          EXPECT_GT(rounds, 5);
          return;
        }
        for (int again = 0; !status.ok() && again < 100; ++again) {
          ++failures;
          ExpectClear(status, place.path);
          if (place.store != nullptr) {  // reads go on
            if (op == FaultyDisk::Op::kWrite) {
              EXPECT_TRUE(place.store->ListStudies(0, 10).ok());
            }
            EXPECT_EQ(place.study.Lost(*place.store), "");
          }
          if (again == 2) place.disk.Heal();
          if (reopens) place.store.reset();
          status = Advance(place);
        }
        ASSERT_TRUE(status.ok()) << status;
        place.disk.Heal();
        ExpectIntact(place);
        ExpectAnswer(place, wanted);
        if (HasFailure()) return;
      }
      ++rounds;
    }
  }
};

TEST_F(StoreFaults, EachWrite) { FailEach(FaultyDisk::Op::kWrite, SQLITE_IOERR_WRITE, Stride(61), 1); }
TEST_F(StoreFaults, EachSync) { FailEach(FaultyDisk::Op::kSync, SQLITE_IOERR_FSYNC, Stride(7), 1); }
TEST_F(StoreFaults, EachRead) { FailEach(FaultyDisk::Op::kRead, SQLITE_IOERR_READ, Stride(41), 1); }
TEST_F(StoreFaults, FullFromEachWriteOn) {
  FailEach(FaultyDisk::Op::kWrite, SQLITE_FULL, Stride(61), FaultyDisk::kForEver);
}
TEST_F(StoreFaults, BrokenFromEachSyncOn) {
  FailEach(FaultyDisk::Op::kSync, SQLITE_IOERR_FSYNC, Stride(7), FaultyDisk::kForEver);
}

TEST_F(StoreFaults, EachWriteOfPruningAndOfAnImport) {
  const std::string wanted = Wanted();
  for (std::int64_t n = 1, failed = 1; failed > 0; n += Stride(3)) {
    SCOPED_TRACE(fmt::format("write {}", n));
    Place place;
    ASSERT_TRUE(Advance(place).ok());
    Store::StudyCopy copy;
    copy.study = *place.store->GetStudy(1);
    copy.study.mutable_best()->set_plan_text("mbs=3");
    copy.trials = *place.store->ListTrials(1, 0, 100);
    place.disk.Fail(FaultyDisk::Op::kWrite, n, SQLITE_IOERR_WRITE, /*times=*/2);
    std::size_t imported = 0;
    const auto check = [&](const absl::Status& status) {
      if (!status.ok()) ExpectClear(status, place.path);
      return status.ok();
    };
    imported += check(place.store->ImportStudy(copy).status()) ? 1 : 0;
    check(place.store->Prune({.studies_s = 1}, 1e9).status());
    check(place.store->GiveBackSpace(/*all=*/false).status());
    imported += check(place.store->ImportStudy(copy).status()) ? 1 : 0;
    failed = place.disk.failed();
    place.disk.Heal();
    EXPECT_TRUE(place.store->Prune({.studies_s = 1}, 1e9).ok());
    EXPECT_EQ(place.store->ListStudies(0, 10)->size(), 1 + imported);
    for (std::size_t id = 2; id < 2 + imported; ++id) {
      // An import that failed may have taken a number.
      const auto studies = place.store->ListStudies(0, 10);
      EXPECT_EQ(place.store->ListTrials(*ParseStudyName((*studies)[id - 2].name()), 0, 100)->size(),
                copy.trials.size());
    }
    ExpectIntact(place);
    ExpectAnswer(place, wanted);
    if (HasFailure()) return;
  }
}

TEST_F(StoreFaults, PowerLoss) {
  const std::string wanted = Wanted();
  const int rounds = Stride(2) == 1 ? 200 : 10;
  const char* const given = ::getenv("AUTOCFG_FAULT_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    Place place;
    absl::Status status = absl::UnavailableError("not begun");
    int cuts = 0;
    while (!status.ok()) {
      ASSERT_LT(cuts, 100);
      // The first rounds of a study reach less far than the later ones.
      place.disk.CutPowerAt(
          static_cast<std::int64_t>(1 + random() % (60 + 40 * static_cast<unsigned>(cuts))));
      status = Advance(place);
      if (!place.disk.dark()) break;
      ++cuts;
      place.store.reset();
      place.disk.RestorePower(random);
      status = absl::UnavailableError("the power was cut");
    }
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(cuts, 0);
    place.store.reset();
    // Once more, after the end.
    place.disk.CutPower();
    place.disk.RestorePower(random);
    ExpectIntact(place);
    ExpectAnswer(place, wanted);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace autocfg::server
