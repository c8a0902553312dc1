// Every directory of tests is a program: a test outside of them would never be built.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

TEST(TestDirectories, AreAllBuilt) {
  std::ifstream in(SourcePath("tests/CMakeLists.txt"));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  static const std::regex kProgram("\\n *autocfg_tests\\(\\w+ +DIR +([a-z0-9_/ ]+) LABEL");
  std::set<std::string> built;
  for (std::sregex_iterator match(text.begin(), text.end(), kProgram), end; match != end; ++match) {
    std::istringstream directories((*match)[1].str());
    for (std::string directory; directories >> directory;) built.insert(directory);
  }
  ASSERT_GT(built.size(), 30u) << "the programs were not found";
  std::set<std::string> directories;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SourcePath("tests"))) {
    if (!entry.path().filename().string().ends_with("_test.cc")) continue;
    directories.insert(std::filesystem::relative(entry.path().parent_path(), SourcePath("tests")).string());
  }
  for (const std::string& directory : directories)
    EXPECT_TRUE(built.contains(directory)) << "tests/CMakeLists.txt has no program of DIR " << directory;
  for (const std::string& directory : built)
    EXPECT_TRUE(directories.contains(directory)) << "tests/" << directory << " has no *_test.cc";
}

}  // namespace
}  // namespace autocfg
