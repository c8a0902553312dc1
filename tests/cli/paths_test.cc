#include "cli/input/paths.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

TEST(Paths, SocketIsBesideTheDatabase) {
  const ScratchDirectory dir;
  EXPECT_EQ(*SocketPath(dir / "a.db"), dir / "a.db.sock");
  EXPECT_EQ(*SocketPath(dir / "./a.db"), dir / "a.db.sock") << "however the path is written";
}

TEST(Paths, LongAndSpecialPathsGetAHashedSocket) {
  const ScratchDirectory dir;
  const auto deep = SocketPath(dir / (std::string(120, 'd') + ".db"));
  const auto other = SocketPath(dir / (std::string(120, 'e') + ".db"));
  const auto strange = SocketPath(dir / "a b%20?.db");
  ASSERT_TRUE(deep.ok() && other.ok() && strange.ok());
  EXPECT_LT(deep->size(), 107u);
  EXPECT_NE(*deep, *other);
  EXPECT_EQ(strange->find_first_of(" %?"), std::string::npos) << *strange;
}

TEST(Paths, MissingSocketIsNotListening) {
  const ScratchDirectory dir;
  EXPECT_FALSE(IsListening(dir / "none.sock"));
  dir.Write("file.sock", "");
  EXPECT_FALSE(IsListening(dir / "file.sock"));
}

TEST(Paths, DatabaseFollowsTheStateDirectory) {
  EXPECT_EQ(*server::DatabasePath("mine.db"), "mine.db");
  const char* before = std::getenv("XDG_STATE_HOME");
  const std::string kept = before == nullptr ? "" : before;
  setenv("XDG_STATE_HOME", "/some/state", 1);
  EXPECT_EQ(*server::DatabasePath(""), "/some/state/autocfg/autocfg.db");
  setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_EQ(server::DatabasePath("")->find("relative"), std::string::npos);
  if (before == nullptr) {
    unsetenv("XDG_STATE_HOME");
  } else {
    setenv("XDG_STATE_HOME", kept.c_str(), 1);
  }
}

TEST(ShellWord, QuotesForAShell) {
  EXPECT_EQ(ShellWord("build/bin/autocfg"), "build/bin/autocfg");
  EXPECT_EQ(ShellWord("tp=1,pp=2"), "tp=1,pp=2");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("$HOME"), "'$HOME'");
}

TEST(ProgramName, IsResolvableByAShell) {
  const ScratchDirectory dir;
  const std::string before = std::getenv("PATH");
  const auto program = dir.Write("autocfg", "");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("PATH", "/nonexistent", 1);
  EXPECT_EQ(ProgramName(program), program);
  EXPECT_EQ(ProgramName("autocfg"), "autocfg");
  setenv("PATH", ("/nonexistent:" + dir.path()).c_str(), 1);
  EXPECT_EQ(ProgramName(program), "autocfg");
  std::filesystem::create_directory(dir / "other dir");
  const auto other = dir.Write("other dir/autocfg", "");
  EXPECT_EQ(ProgramName(other), "'" + other + "'") << "another one is first on PATH";
  setenv("PATH", before.c_str(), 1);
}

}  // namespace
}  // namespace autocfg::cli
