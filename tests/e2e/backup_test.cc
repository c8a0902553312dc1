// autocfg db backup as a user sees it who interrupts it.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "server/store/sqlite/sqlite_store.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

TEST(DbBackup, AnInterruptionLeavesNothing) {
  const ScratchDirectory home;
  const std::string database = home / "a.db";
  std::filesystem::create_directory(home / "out");
  const std::string copy = home / "out/copy.db";
  {
    const auto store = server::OpenSqliteStore(database);
    ASSERT_TRUE(store.ok()) << store.status();
    v1::Study study;
    study.set_fingerprint("f");
    ASSERT_TRUE((*store)->CreateStudy("", study, 1).ok());
  }
  {
    SQLite::Database db(database, SQLite::OPEN_READWRITE);
    db.exec("PRAGMA synchronous = OFF");
    db.exec("UPDATE studies SET study = zeroblob(768 * 1024 * 1024)");
  }
  home.Write("out/copy.db", "old");
  ProgramProcess backup(home, {"db", "backup", "--db", database, "--output", copy, "--force"});
  const auto files = [&home] { return std::distance(std::filesystem::directory_iterator(home / "out"), {}); };
  while (backup.running() && files() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  backup.Signal(SIGINT);
  const Finished end = backup.Wait();
  EXPECT_EQ(end.exit_code, 130) << end.err;
  EXPECT_EQ(end.out, "");
  EXPECT_EQ(end.err, "autocfg: interrupted; nothing was written\n");
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(ReadWhole(copy), "old");
}

}  // namespace
}  // namespace autocfg::cli
