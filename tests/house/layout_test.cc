// Checks that directories and headers keep a size at which a newcomer finds things (docs/architecture.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

namespace fs = std::filesystem;

bool IsSource(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh";
}

template <typename Visit>
void ForEachSource(const Visit& visit) {
  for (const char* top :
       {"base", "search", "kernels", "proto", "trainer", "worker", "server", "cli", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(SourcePath(top))) {
      if (IsSource(entry.path())) visit(entry.path());
    }
  }
}

// A directory that a person has to scroll has groups to be named.
TEST(Layout, DirectoriesAreSmall) {
  constexpr int kMostSources = 26;
  std::map<std::string, int> sources;
  ForEachSource([&](const fs::path& path) { ++sources[path.parent_path().string()]; });
  ASSERT_GT(sources.size(), 50u) << "the sources were not found";
  for (const auto& [directory, count] : sources)
    EXPECT_LE(count, kMostSources) << directory << ": move a group of its files into a directory of its own";
}

// A small header usually belongs to a concept that has a file.
TEST(Layout, FewHeadersAreSmall) {
  constexpr std::ptrdiff_t kSmallLines = 30;
  int small = 0, all = 0;
  ForEachSource([&](const fs::path& path) {
    if (path.extension() != ".h") return;
    std::ifstream in(path);
    const std::ptrdiff_t lines =
        std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
    ++all;
    if (lines <= kSmallLines) ++small;
  });
  ASSERT_GT(all, 200) << "the headers were not found";
  EXPECT_LT(5 * small, all) << small << " of " << all << " headers have " << kSmallLines
                            << " lines or fewer: merge some into the concepts that they belong to";
}

}  // namespace
}  // namespace autocfg
