#include "proto/rpc/token_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

// Writes the file under its final name at once, as a new file.
void Replace(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

TEST(FollowedToken, IsReadAgainWhenItsFileChanges) {
  const TempDir dir;
  const std::string path = dir.File("token");
  Replace(path, "autocfg_1\n");
  FollowedToken token("autocfg_1", path);
  EXPECT_EQ(token.Latest(), "autocfg_1");
  Replace(path, "autocfg_2\n");
  EXPECT_EQ(token.Latest(), "autocfg_2");
  Replace(path, "two words\n");
  EXPECT_EQ(token.Latest(), "autocfg_2") << "a file without a token changes nothing";
  std::filesystem::remove(path);
  EXPECT_EQ(token.Latest(), "autocfg_2");
  Replace(path, "autocfg_3\n");
  EXPECT_EQ(token.Latest(), "autocfg_3");
}

TEST(FollowedToken, StaysWithoutAFile) {
  FollowedToken token("autocfg_1", "");
  EXPECT_EQ(token.Latest(), "autocfg_1");
}

TEST(ReadTokenFile, NamesTheFile) {
  const TempDir dir;
  EXPECT_THAT(std::string(ReadTokenFile(dir.File("none")).status().message()),
              HasSubstr(dir.File("none") + ": cannot be read"));
  Replace(dir.File("empty"), "");
  EXPECT_THAT(std::string(ReadTokenFile(dir.File("empty")).status().message()),
              HasSubstr(dir.File("empty") + ": holds no token"));
}

TEST(TokenFileWarning, IsAboutFilesThatEveryoneReads) {
  const TempDir dir;
  const std::string path = dir.File("token");
  Replace(path, "autocfg_1\n");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(TokenFileWarning(path), HasSubstr(path + ": every user"));
  for (const mode_t mode : {0640, 0600, 0400}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(TokenFileWarning(path), "") << mode;
  }
  EXPECT_EQ(TokenFileWarning(""), "");
  EXPECT_EQ(TokenFileWarning(dir.File("none")), "");
}

}  // namespace
}  // namespace autocfg
