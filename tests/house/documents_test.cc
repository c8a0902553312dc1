// Checks that documentation and comments name only files that exist, so that a moved file takes its mentions
// along.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 11> kTops = {
    "base", "search", "kernels", "proto", "trainer", "worker", "server", "cli", "tests", "deploy", "bench"};

std::string ReadText(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> Pages() {
  std::vector<fs::path> pages;
  for (const char* directory : {"", "docs"}) {
    for (const auto& entry : fs::directory_iterator(SourcePath(directory))) {
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
    }
  }
  return pages;
}

// Returns the sources and build files under the top directories.
std::vector<fs::path> Sources() {
  std::vector<fs::path> sources;
  for (const std::string_view top : kTops) {
    for (const auto& entry : fs::recursive_directory_iterator(SourcePath(std::string(top)))) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh" ||
          extension == ".proto" || extension == ".py" || extension == ".txt")
        sources.push_back(entry.path());
    }
  }
  return sources;
}

std::vector<std::string> Matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.push_back((*match)[1].str());
  return found;
}

// Expands the first {a,b} of a path.
std::vector<std::string> Expanded(const std::string& path) {
  const std::size_t open = path.find('{'), close = path.find('}');
  if (open == std::string::npos || close == std::string::npos) return {path};
  std::vector<std::string> paths;
  std::string choices = path.substr(open + 1, close - open - 1) + ",";
  for (std::size_t comma; (comma = choices.find(',')) != std::string::npos; choices.erase(0, comma + 1))
    paths.push_back(path.substr(0, open) + choices.substr(0, comma) + path.substr(close + 1));
  return paths;
}

bool Exists(const std::string& path) {
  const std::string absolute = SourcePath(path);
  return fs::exists(absolute) || fs::exists(absolute + ".h") || fs::exists(absolute + ".cc");
}

// Returns true if a word of the path stands for any name.
bool IsPattern(const std::string& path) {
  const auto has = [&](const char* word) { return path.find(word) != std::string::npos; };
  return has("NAME") || has("DEVICE") || has("*");
}

// A path may lack its extension, and may hold {h,cc}.
TEST(Documents, NameFilesThatExist) {
  static const std::regex kPath(
      "`((?:base|search|kernels|proto|trainer|worker|server|cli|tests|deploy|bench|docs|"
      "cmake)/[A-Za-z0-9_./{},*-]*)`");
  std::size_t count = 0;
  for (const fs::path& page : Pages()) {
    for (const std::string& named : Matches(ReadText(page), kPath)) {
      for (const std::string& path : Expanded(named)) {
        if (IsPattern(path)) continue;
        ++count;
        EXPECT_TRUE(Exists(path)) << page.filename() << " names " << path << ", which does not exist";
      }
    }
  }
  EXPECT_GT(count, 100u) << "the pattern finds no paths";
}

TEST(Documents, LinkToFilesThatExist) {
  static const std::regex kLink(R"(\]\(([^)#: ]+)(?:#[^)]*)?\))");
  std::size_t count = 0;
  for (const fs::path& page : Pages()) {
    for (const std::string& target : Matches(ReadText(page), kLink)) {
      ++count;
      EXPECT_TRUE(fs::exists(page.parent_path() / target))
          << page.filename() << " links to " << target << ", which does not exist";
    }
  }
  EXPECT_GT(count, 20u) << "the pattern finds no links";
}

// Paths in comments, from the root of the tree. Includes do not compile otherwise.
TEST(Comments, NameFilesThatExist) {
  static const std::regex kPath(
      "\\b((?:base|search|kernels|proto|trainer|worker|server|cli|tests|bench)/[a-z0-9_/]+"
      "\\.(?:h|cc|cu|proto|py))\\b");
  std::size_t count = 0;
  for (const fs::path& source : Sources()) {
    std::ifstream in(source);
    std::string line;
    while (std::getline(in, line)) {
      const std::size_t comment = std::min(line.find("//"), line.find('#'));
      if (comment == std::string::npos || line.find("#include") != std::string::npos) continue;
      for (const std::string& path : Matches(line.substr(comment), kPath)) {
        ++count;
        EXPECT_TRUE(Exists(path)) << source << " names " << path << ", which does not exist";
      }
    }
  }
  EXPECT_GT(count, 50u) << "the pattern finds no paths";
}

}  // namespace
}  // namespace autocfg
