// Defects of a database file: each has its own status, and no stored data is lost.
#include "server/store/sqlite/sqlite_file.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite/schema.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/store/study_edits.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

absl::Status OpenStatus(const std::string& path, const SqliteOptions& options = {}) {
  return OpenSqliteStore(path, options).status();
}

v1::Study Sample(const std::string& fingerprint) {
  v1::Study study;
  study.set_fingerprint(fingerprint);
  return study;
}

// Creates a closed database with `count` studies.
void MakeDatabase(const std::string& path, int count) {
  auto store = OpenSqliteStore(path);
  ASSERT_TRUE(store.ok()) << store.status();
  for (int i = 0; i < count; ++i)
    ASSERT_TRUE((*store)->CreateStudy("", Sample(std::string(300, 'x')), 1).ok());
}

TEST(SqliteFile, PersistsData) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  std::int64_t token = 0;
  {
    auto store = OpenSqliteStore(path);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->CreateStudy("r", Sample("f"), 5).ok());
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("b");
    worker.mutable_inventory()->set_slots(1);
    token = *(*store)->RegisterWorker(worker, 1);
  }
  auto store = OpenSqliteStore(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->GetStudy(1)->fingerprint(), "f");
  EXPECT_EQ((*store)->CreateStudy("r", Sample("f"), 9)->create_time_s(), 5);
  EXPECT_TRUE((*store)->CheckSession({"workers/a", token}).ok());
}

TEST(SqliteFile, UsesAWriteAheadLogAndStrictTables) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  MakeDatabase(path, 1);
  SQLite::Database db(path, SQLite::OPEN_READWRITE);
  EXPECT_EQ(db.execAndGet("PRAGMA journal_mode").getString(), "wal");
  EXPECT_EQ(db.execAndGet("PRAGMA user_version").getInt(), static_cast<int>(StoreMigrations().size()));
  EXPECT_EQ(db.execAndGet("PRAGMA application_id").getInt(), kApplicationId);
  EXPECT_EQ(
      db.execAndGet(
            "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0 "
            "AND name NOT LIKE 'sqlite%'")
          .getInt(),
      0);
  EXPECT_THROW(db.exec("UPDATE studies SET state = 'running'"), SQLite::Exception);
}

TEST(SqliteFile, ConnectionIsDurableAndEnforcesForeignKeys) {
  TempDir dir;
  const auto file = OpenSqliteFile(dir.File("a.db"), 0);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->db->execAndGet("PRAGMA synchronous").getInt(), 2) << "FULL";
  EXPECT_EQ(file->db->execAndGet("PRAGMA foreign_keys").getInt(), 1);
  EXPECT_THROW(file->db->exec("INSERT INTO trial_logs (job, attempt, text) VALUES (7, 1, 'x')"),
               SQLite::Exception);
  const auto memory = OpenSqliteMemory(0);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->db->execAndGet("PRAGMA foreign_keys").getInt(), 1);
}

TEST(SqliteFile, DeletedStudyLeavesNoRows) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  auto store = OpenSqliteStore(path);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->CreateStudy("", Sample("f"), 1).ok());
  ASSERT_TRUE(SetStudyState(**store, 1, v1::STUDY_STATE_RUNNING).ok());
  v1::Trial trial;
  trial.set_plan_text("tp=1");
  v1::Job job;
  job.set_ranks(1);
  job.mutable_train();
  ASSERT_TRUE((*store)->EnqueueTrial(1, trial, job, 2).ok());
  v1::RegisterWorkerRequest worker;
  worker.set_worker("workers/a");
  worker.mutable_inventory()->set_slots(1);
  const WorkerSession session{"workers/a", *(*store)->RegisterWorker(worker, 1)};
  const Lease lease = (*store)->LeaseJobs({session}, {session}, 1, 10)->leases.at(0);
  ASSERT_TRUE((*store)->AppendLog(lease.lease_id, lease.fencing_token, "line").ok());
  v1::ReportTrialRequest report;
  report.set_worker(session.worker);
  report.set_session_epoch(session.epoch);
  report.set_lease_id(lease.lease_id);
  report.set_fencing_token(lease.fencing_token);
  report.set_attempt(lease.attempt);
  report.set_request_id("report of this study");
  report.set_outcome(v1::OUTCOME_FAILED);
  ASSERT_TRUE((*store)->Report(report, 2).ok());
  ASSERT_TRUE(SetStudyState(**store, 1, v1::STUDY_STATE_CANCELLED).ok());
  ASSERT_TRUE((*store)->DeleteStudy(1).ok());
  SQLite::Database db(path, SQLite::OPEN_READONLY);
  for (const char* table :
       {"studies", "trials", "jobs", "attempts", "shares", "measurements", "trial_logs", "requests"})
    EXPECT_EQ(db.execAndGet(fmt::format("SELECT count(*) FROM {}", table)).getInt(), 0) << table;
}

TEST(SqliteFile, CreatesMissingDirectoriesPrivateToTheUser) {
  TempDir dir;
  const std::string path = dir.File("x/y/a.db");
  EXPECT_TRUE(OpenStatus(path).ok()) << OpenStatus(path);
  struct stat info {};
  ASSERT_EQ(::stat(dir.File("x/y").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(SqliteFile, SecondOpenerGetsTheOwnersProcess) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  auto first = OpenSqliteStore(path);
  ASSERT_TRUE(first.ok());
  const absl::Status second = OpenStatus(path);
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.message(), HasSubstr(fmt::format("process {}", ::getpid())));
  // By another name too.
  std::filesystem::create_symlink(path, dir.File("link.db"));
  EXPECT_EQ(OpenStatus(dir.File("link.db")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*first)->CreateStudy("", Sample("f"), 1).ok());
  first->reset();
  EXPECT_TRUE(OpenStatus(path).ok());
}

// Returns true if a process has SQLite's lock on the file that keeps others from changing it directly.
bool HasSqliteLock(const std::string& path) {
  constexpr off_t kSharedFirst = (off_t{1} << 30) + 2;  // SQLite's file format
  constexpr off_t kSharedSize = 510;
  // Another process, which sees the locks of this one, and drops none of them when it closes the file.
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = kSharedFirst;
    lock.l_len = kSharedSize;
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ::_exit(::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

// The second would have a write-ahead log of its own, and so damage the file.
TEST(SqliteFile, SecondOpenerByAnotherNameIsRejected) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  auto first = OpenSqliteStore(path);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(HasSqliteLock(path));
  std::filesystem::create_hard_link(path, dir.File("link.db"));
  const absl::Status linked = OpenStatus(dir.File("link.db"));
  EXPECT_EQ(linked.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(linked.message(), HasSubstr(dir.File("link.db")));
  EXPECT_THAT(linked.message(), HasSubstr(fmt::format("process {}", ::getpid())));
  std::filesystem::remove(path + ".lock");
  const absl::Status unlocked = OpenStatus(path);
  EXPECT_EQ(unlocked.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(unlocked.message(), HasSubstr(fmt::format("process {}", ::getpid())));
  EXPECT_TRUE(HasSqliteLock(path)) << "a rejected opener must not drop SQLite's locks";
  EXPECT_TRUE((*first)->CreateStudy("", Sample("f"), 1).ok());
  first->reset();
  auto second = OpenSqliteStore(dir.File("link.db"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->ListStudies(0, 10)->size(), 1u);
}

// Readers need no lock, and find what is committed.
TEST(SqliteFile, ReadersMayOpenALockedFile) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  auto writer = OpenSqliteStore(path);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->CreateStudy("", Sample("f"), 1).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto reader = OpenSqliteStoreReadOnly(path);
    ::_exit(reader.ok() && (*reader)->ListStudies(0, 10)->size() == 1 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SqliteFile, RejectsADirectory) {
  TempDir dir;
  const absl::Status status = OpenStatus(dir.path().string());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("is a directory"));
  EXPECT_EQ(OpenStatus("").code(), absl::StatusCode::kInvalidArgument);
}

TEST(SqliteFile, RejectsAParentThatIsAFile) {
  TempDir dir;
  WriteFile(dir.File("file"), "x");
  const absl::Status status = OpenStatus(dir.File("file/a.db"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(Contents(dir.File("file")), "x");
}

TEST(SqliteFile, MissingWritePermissionIsPermissionDenied) {
  TempDir dir;
  MakeDatabase(dir.File("a.db"), 1);
  ASSERT_EQ(::chmod(dir.File("a.db").c_str(), 0400), 0);
  ASSERT_EQ(::chmod(dir.File("a.db.lock").c_str(), 0666), 0);
  ASSERT_EQ(::mkdir(dir.File("closed").c_str(), 0500), 0);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  // Root can write everywhere, so this thread accesses files as the user nobody.
  const bool root = ::geteuid() == 0;
  if (root) ::setfsuid(65534);
  const absl::Status file = OpenStatus(dir.File("a.db"));
  const absl::Status directory = OpenStatus(dir.File("closed/b.db"));
  const absl::Status below = OpenStatus(dir.File("closed/x/b.db"));
  if (root) ::setfsuid(0);
  EXPECT_EQ(file.code(), absl::StatusCode::kPermissionDenied) << file;
  EXPECT_THAT(file.message(), HasSubstr(dir.File("a.db")));
  EXPECT_EQ(directory.code(), absl::StatusCode::kPermissionDenied) << directory;
  EXPECT_EQ(below.code(), absl::StatusCode::kPermissionDenied) << below;
  ASSERT_EQ(::chmod(dir.File("a.db").c_str(), 0600), 0);
  EXPECT_TRUE(OpenStatus(dir.File("a.db")).ok());
}

TEST(SqliteFile, RejectsOtherFilesUnchanged) {
  TempDir dir;
  for (const std::string& bytes :
       {std::string("hello"), std::string(100000, 'z'), std::string(5000, '\0') + "end"}) {
    const std::string path = dir.File("note.txt");
    WriteFile(path, bytes);
    const absl::Status status = OpenStatus(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
    EXPECT_EQ(Contents(path), bytes);
    EXPECT_FALSE(std::filesystem::exists(path + ".lock")) << "nothing is left beside it";
  }
  EXPECT_EQ(OpenStatus("/dev/null").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists("/dev/null.lock"));
}

// The journal of a database of no pages (SQLite, "Rollback Journal Format"): all that was written is undone.
TEST(SqliteFile, PowerLossWhileItWasCreatedIsUndone) {
  const TempDir dir;
  const std::string path = dir.File("a.db");
  WriteFile(path, std::string(4096, '\0'));
  EXPECT_EQ(OpenStatus(path).code(), absl::StatusCode::kDataLoss);
  std::string journal("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8);
  for (const unsigned number :
       {0U, 1U, 0U, 512U, 4096U}) {  // records, nonce, pages, bytes of a sector, of a page
    for (const int shift : {24, 16, 8, 0})
      journal += static_cast<char>(number >> static_cast<unsigned>(shift) & 0xffU);
  }
  journal.resize(512);
  WriteFile(path + "-journal", journal);
  EXPECT_TRUE(OpenStatus(path).ok()) << OpenStatus(path);
}

TEST(SqliteFile, RejectsOtherProgramsDatabaseUnchanged) {
  TempDir dir;
  const std::string path = dir.File("theirs.db");
  {
    SQLite::Database db(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("CREATE TABLE theirs (x)");
  }
  const std::string before = Contents(path);
  const absl::Status status = OpenStatus(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("another program"));
  EXPECT_EQ(Contents(path), before);
  EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
}

TEST(SqliteFile, TruncatedDatabaseIsDataLossAndUnchanged) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  MakeDatabase(path, 200);
  const std::string whole = Contents(path);
  for (const std::size_t size :
       {whole.size() / 2, whole.size() - 4096, std::size_t{4096}, std::size_t{700}, std::size_t{50}}) {
    const std::string part = whole.substr(0, size);
    WriteFile(path, part);
    const absl::Status status = OpenStatus(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << ": " << status;
    EXPECT_EQ(Contents(path), part) << size;
  }
  WriteFile(path, whole);
  auto store = OpenSqliteStore(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->ListStudies(0, 1000)->size(), 200u);
}

TEST(SqliteFile, DamagedPageIsDataLoss) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  MakeDatabase(path, 200);
  std::string bytes = Contents(path);
  for (std::size_t page = 1; page * 4096 < bytes.size(); ++page)
    bytes.replace(page * 4096, 64, std::string(64, '\x7f'));
  WriteFile(path, bytes);
  EXPECT_EQ(OpenStatus(path).code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteFile, RejectsNewerVersionNamingBoth) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  MakeDatabase(path, 3);
  {
    SQLite::Database db(path, SQLite::OPEN_READWRITE);
    db.exec("PRAGMA user_version = 77");
  }
  const absl::Status status = OpenStatus(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("version 77"));
  EXPECT_THAT(status.message(), HasSubstr(fmt::format("up to {}", StoreMigrations().size())));
  SQLite::Database db(path, SQLite::OPEN_READONLY);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM studies").getInt(), 3);
}

TEST(SqliteFile, FullDiskFailsTheWriteAndKeepsOtherData) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  int stored = 0;
  {
    auto store = OpenSqliteStore(path, {.max_pages = 64});
    ASSERT_TRUE(store.ok()) << store.status();
    absl::Status status;
    while (status.ok() && stored < 10000) {
      status = (*store)->CreateStudy("", Sample(std::string(2000, 'x')), 1).status();
      if (status.ok()) ++stored;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
    EXPECT_GT(stored, 5);
    EXPECT_EQ((*store)->Health(), status);
    EXPECT_EQ((*store)->ListStudies(0, 10000)->size(), static_cast<std::size_t>(stored));
    // A deletion frees space.
    EXPECT_TRUE((*store)->DeleteStudy(1).ok());
    EXPECT_TRUE((*store)->CreateStudy("", Sample("small"), 1).ok());
    EXPECT_TRUE((*store)->Health().ok());
  }
  auto store = OpenSqliteStore(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->ListStudies(0, 10000)->size(), static_cast<std::size_t>(stored));
  EXPECT_EQ(OpenStatus(dir.File("tiny.db"), {.max_pages = 3}).code(), absl::StatusCode::kResourceExhausted);
}

TEST(Migrations, RunInOrderOnceAndAtomically) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  const char* const one[] = {"CREATE TABLE a (x); INSERT INTO a VALUES (1)"};
  ASSERT_TRUE(Migrate(db, one, "t").ok());
  ASSERT_TRUE(Migrate(db, one, "t").ok());
  const char* const three[] = {one[0], "ALTER TABLE a ADD COLUMN y; UPDATE a SET y = x + 1",
                               "UPDATE a SET y = y * 10"};
  ASSERT_TRUE(Migrate(db, three, "t").ok());
  EXPECT_EQ(db.execAndGet("SELECT y FROM a").getInt(), 20);
  EXPECT_EQ(db.execAndGet("PRAGMA user_version").getInt(), 3);
  // A failed step keeps the version and data of the previous step.
  const char* const broken[] = {three[0], three[1], three[2], "UPDATE a SET y = 0; CREATE TABLE a (z)"};
  EXPECT_THROW(Migrate(db, broken, "t").IgnoreError(), SQLite::Exception);
  EXPECT_EQ(db.execAndGet("SELECT y FROM a").getInt(), 20);
  EXPECT_EQ(db.execAndGet("PRAGMA user_version").getInt(), 3);
  EXPECT_EQ(Migrate(db, one, "t").code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace autocfg::server
