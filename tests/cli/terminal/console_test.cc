#include "cli/terminal/console.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/cli/program.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

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
  setenv("PATH", Missing("/nonexistent").c_str(), 1);
  EXPECT_EQ(ProgramName(program), program);
  EXPECT_EQ(ProgramName("autocfg"), "autocfg");
  setenv("PATH", (Missing("/nonexistent:") + dir.path()).c_str(), 1);
  EXPECT_EQ(ProgramName(program), "autocfg");
  std::filesystem::create_directory(dir / "other dir");
  const auto other = dir.Write("other dir/autocfg", "");
  EXPECT_EQ(ProgramName(other), "'" + other + "'") << "another one is first on PATH";
  setenv("PATH", before.c_str(), 1);
}

}  // namespace
}  // namespace autocfg::cli
