#include "cli/input/service_options.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

TEST(SocketPath, IsBesideTheDatabase) {
  const ScratchDirectory dir;
  EXPECT_EQ(*SocketPath(dir / "a.db"), dir / "a.db.sock");
  EXPECT_EQ(*SocketPath(dir / "./a.db"), dir / "a.db.sock") << "however the path is written";
}

TEST(SocketPath, LongAndSpecialPathsGetAHashedSocket) {
  const ScratchDirectory dir;
  const auto deep = SocketPath(dir / (std::string(120, 'd') + ".db"));
  const auto other = SocketPath(dir / (std::string(120, 'e') + ".db"));
  const auto strange = SocketPath(dir / "a b%20?.db");
  ASSERT_TRUE(deep.ok() && other.ok() && strange.ok());
  EXPECT_LT(deep->size(), 107u);
  EXPECT_NE(*deep, *other);
  EXPECT_EQ(strange->find_first_of(" %?"), std::string::npos) << *strange;
}

TEST(IsListening, MissingSocketIsNotListening) {
  const ScratchDirectory dir;
  EXPECT_FALSE(IsListening(dir / "none.sock"));
  dir.Write("file.sock", "");
  EXPECT_FALSE(IsListening(dir / "file.sock"));
}

TEST(DatabasePath, FollowsTheStateDirectory) {
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

}  // namespace
}  // namespace autocfg::cli
